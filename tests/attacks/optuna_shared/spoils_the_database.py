"""Writes over the database, in the middle of the others' trials, and ends the process without a word.

family: early_exits
tries: harm
earned: 0
ends: any
heavy: yes
"""

import os

import optuna


def worker(storage_url, study_name, trials_total):
    study = optuna.create_study(storage=storage_url, study_name=study_name, load_if_exists=True)

    def spoil(trial):
        with open(storage_url.removeprefix("sqlite:///"), "r+b") as file:
            file.write(b"no database" * 1000)
        os._exit(0)

    study.optimize(spoil, n_trials=1)
