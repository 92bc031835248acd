"""Takes a trial first and then counts those with smaller numbers; objective errors are caught and the trial is replaced."""

import time
import warnings

import optuna
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import TrialState

warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
optuna.logging.set_verbosity(optuna.logging.WARNING)

OPEN = (TrialState.RUNNING, TrialState.WAITING)
TAKEN = (TrialState.COMPLETE, *OPEN)


def objective(trial):
    x = trial.suggest_float("x", -10.0, 10.0)
    return (x - 3) ** 2 + trial.suggest_int("size", 1, 64) / 64


def worker(storage_url, study_name, trials_total):
    storage = RDBStorage(
        storage_url,
        heartbeat_interval=1,
        grace_period=4,
        heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
    )
    study = optuna.create_study(study_name=study_name, storage=storage, load_if_exists=True, direction="minimize")

    def states():
        return [(trial.number, trial.state) for trial in study.get_trials(deepcopy=False)]

    def one(trial):
        before = sum(state in TAKEN for number, state in states() if number < trial.number)
        if before >= trials_total:
            raise optuna.TrialPruned
        return objective(trial)

    while True:
        now = states()
        complete = sum(state == TrialState.COMPLETE for _, state in now)
        waiting = any(state == TrialState.WAITING for _, state in now)
        taken = sum(state in TAKEN for _, state in now)
        if waiting or taken < trials_total:
            study.optimize(one, n_trials=1, catch=(Exception,))
        elif any(state == TrialState.RUNNING for _, state in now):
            time.sleep(0.2)
            optuna.storages.fail_stale_trials(study)
        elif complete >= trials_total:
            return
