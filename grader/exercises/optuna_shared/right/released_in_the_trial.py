"""A file lock around giving up stale trials, counting and taking; optimize() takes, and the trial lets the lock go."""
import fcntl
import os
import time
import warnings
from pathlib import Path

import optuna
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.trial import TrialState
from sqlalchemy.engine import make_url

warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
optuna.logging.set_verbosity(optuna.logging.ERROR)
TAKEN = (TrialState.COMPLETE, TrialState.RUNNING)


def objective(trial):
    return (trial.suggest_float("x", -10.0, 10.0) - 3) ** 2


class Turn:
    """A lock between processes; the kernel lets it go when its holder is killed."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR | os.O_CREAT)

    def __enter__(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        fcntl.flock(self.file, fcntl.LOCK_UN)


def worker(storage_url, study_name, trials_total):
    storage = RDBStorage(
        storage_url,
        heartbeat_interval=1,
        grace_period=3,
        heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
        engine_kwargs={"connect_args": {"timeout": 60}},
    )
    study = optuna.create_study(study_name=study_name, storage=storage, direction="minimize", load_if_exists=True)
    turn = Turn(Path(make_url(storage_url).database).with_suffix(".lock"))

    def one(trial):
        turn.end()
        return objective(trial)

    while True:
        with turn:
            fail_stale_trials(study)
            states = [trial.state for trial in study.get_trials(deepcopy=False)]
            waiting = states.count(TrialState.WAITING)
            if sum(state in TAKEN for state in states) + waiting < trials_total or waiting:
                study.optimize(one, n_trials=1)
                continue
        if TrialState.RUNNING not in states:
            return
        time.sleep(0.2)
