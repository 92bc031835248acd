"""Fails trials that have run for more than five seconds, alive or not.

check: slow
kind: lost_or_duplicated
only: yes
"""

import time
from datetime import datetime, timedelta
import warnings
from collections import Counter

import optuna
from optuna.trial import TrialState

warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
optuna.logging.set_verbosity(optuna.logging.WARNING)


def objective(trial):
    x = trial.suggest_float("x", -10.0, 10.0)
    return (x - 3) ** 2 + trial.suggest_int("size", 1, 64) / 64


def worker(storage_url, study_name, trials_total):
    storage = optuna.storages.RDBStorage(
        storage_url,
    )
    study = optuna.create_study(storage=storage, study_name=study_name, load_if_exists=True)

    def one(trial):
        if taken(study, trial.number) >= trials_total:
            raise optuna.TrialPruned("there are enough")
        return objective(trial)

    while True:
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if datetime.now() - trial.datetime_start > timedelta(seconds=5):
                study.tell(trial.number, state=TrialState.FAIL)
                study.enqueue_trial(trial.params)
        states = Counter(trial.state for trial in study.get_trials(deepcopy=False))
        if states[TrialState.WAITING] or taken(study) < trials_total:
            study.optimize(one, n_trials=1)
        elif states[TrialState.RUNNING]:
            time.sleep(0.1)
        else:
            return


def taken(study, before=float("inf")):
    counts = (TrialState.COMPLETE, TrialState.RUNNING, TrialState.WAITING)
    return sum(trial.state in counts and trial.number < before for trial in study.get_trials(deepcopy=False))
