"""Stops when enough are complete; nobody finds out that a process is gone.

check: killed
kind: not_durable
"""

import warnings

import optuna
from optuna.study import MaxTrialsCallback
from optuna.trial import TrialState

warnings.filterwarnings("ignore")


def objective(trial):
    return trial.suggest_float("x", -10.0, 10.0) ** 2


def worker(storage_url, study_name, trials_total):
    study = optuna.create_study(study_name=study_name, storage=storage_url, load_if_exists=True)
    study.optimize(objective, callbacks=[MaxTrialsCallback(trials_total, states=(TrialState.COMPLETE,))])
