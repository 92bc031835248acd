"""Stops when enough are complete, and forgets those that the others still run.

check: exact
kind: lost_or_duplicated
"""

import warnings

import optuna
from optuna.study import MaxTrialsCallback
from optuna.trial import TrialState

warnings.filterwarnings("ignore")


def objective(trial):
    return trial.suggest_float("x", -10.0, 10.0) ** 2


def worker(storage_url, study_name, trials_total):
    storage = optuna.storages.RDBStorage(
        url=storage_url,
        heartbeat_interval=1,
        grace_period=3,
        heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=3),
    )
    study = optuna.create_study(study_name=study_name, storage=storage, load_if_exists=True)
    study.optimize(objective, callbacks=[MaxTrialsCallback(trials_total, states=(TrialState.COMPLETE,))])
