"""Looks and takes under a file's lock, which is let go as soon as the trial is there."""

import fcntl
import time

import optuna
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.trial import TrialState


def objective(trial):
    return trial.suggest_float("lr", 1e-5, 1e-1, log=True)


class Worker:
    def __init__(self, url, name, total):
        storage = RDBStorage(
            url, heartbeat_interval=2, grace_period=3, engine_kwargs={"connect_args": {"timeout": 30}},
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
        )
        self.study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
        self.total, self.path = total, url.split("///")[1] + ".lock"

    def count(self, *states):
        return len(self.study.get_trials(deepcopy=False, states=states))

    def one(self):
        """Run a trial, if there is one to be had; whether there was."""
        lock = open(self.path, "w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        fail_stale_trials(self.study)
        taken = self.count(TrialState.COMPLETE, TrialState.RUNNING)
        if taken >= self.total and not self.count(TrialState.WAITING):
            lock.close()
            return False

        def run(trial):
            lock.close()
            return objective(trial)

        self.study.optimize(run, n_trials=1)
        return True

    def all(self):
        while self.one() or self.count(TrialState.RUNNING, TrialState.WAITING):
            time.sleep(0.05)


def worker(storage_url, study_name, trials_total):
    Worker(storage_url, study_name, trials_total).all()
