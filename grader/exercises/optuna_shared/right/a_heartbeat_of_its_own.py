"""ask() and tell(), a heartbeat of its own in a thread, and a lock that is a transaction in a second SQLite file."""
import contextlib
import sqlite3
import threading
import warnings
from time import sleep

import optuna
from optuna.trial import TrialState

warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
optuna.logging.disable_default_handler()


def objective(trial):
    return trial.suggest_float("x", -10.0, 10.0) ** 2


class Beating:
    def __init__(self, storage, trial):
        self.storage, self.id, self.over = storage, trial._trial_id, threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True)

    def beat(self):
        while True:
            self.storage.record_heartbeat(self.id)
            if self.over.wait(1):
                return

    def __enter__(self):
        self.storage.record_heartbeat(self.id)
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Worker:
    def __init__(self, url, name, total):
        self.total = total
        self.storage = optuna.storages.RDBStorage(
            url, heartbeat_interval=1, grace_period=4, heartbeat_stale_trial_callback=self.again
        )
        self.lock = sqlite3.connect(url.removeprefix("sqlite:///") + ".turns", isolation_level=None, timeout=600)
        with self.alone():
            try:
                self.study = optuna.load_study(study_name=name, storage=self.storage)
            except KeyError:
                self.study = optuna.create_study(study_name=name, storage=self.storage)

    @staticmethod
    def again(study, trial):
        study.enqueue_trial(trial.params, user_attrs={"instead of": trial.number})

    @contextlib.contextmanager
    def alone(self):
        self.lock.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            self.lock.execute("COMMIT")

    def take(self):
        """A trial, or None: nothing left to take. And whether somebody is still at work."""
        with self.alone():
            optuna.storages.fail_stale_trials(self.study)
            alive = {state: 0 for state in TrialState}
            for trial in self.study.get_trials(deepcopy=False):
                alive[trial.state] += 1
            places = self.total - alive[TrialState.COMPLETE] - alive[TrialState.RUNNING]
            if places <= 0 and not alive[TrialState.WAITING]:
                return None, bool(alive[TrialState.RUNNING])
            trial = self.study.ask()
            self.storage.record_heartbeat(trial._trial_id)
            return trial, True

    def run(self):
        busy = True
        while busy:
            trial, busy = self.take()
            if trial is None:
                if busy:
                    sleep(0.1)
                continue
            with Beating(self.storage, trial):
                try:
                    value = objective(trial)
                except optuna.TrialPruned:
                    self.study.tell(trial, state=TrialState.PRUNED)
                else:
                    self.study.tell(trial, value)


def worker(storage_url, study_name, trials_total):
    Worker(storage_url, study_name, trials_total).run()
