"""Every process makes trials_total trials of its own.

check: exact
kind: lost_or_duplicated
"""

import warnings

import optuna

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
    study.optimize(objective, n_trials=trials_total)
