"""Takes a trial that was pruned for one that is done.

check: pruned
kind: lost_or_duplicated
only: yes
"""

import time
import warnings
from collections import Counter

import optuna
from optuna.trial import TrialState

warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
optuna.logging.set_verbosity(optuna.logging.WARNING)


def objective(trial):
    x = trial.suggest_float("x", -10.0, 10.0)
    return (x - 3) ** 2 + trial.suggest_int("size", 1, 64) / 64


class Enough(Exception):
    pass


def worker(storage_url, study_name, trials_total):
    storage = optuna.storages.RDBStorage(
        storage_url,
        heartbeat_interval=1,
        grace_period=4,
        heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(),
    )
    study = optuna.create_study(storage=storage, study_name=study_name, load_if_exists=True)

    def one(trial):
        if taken(study, trial.number) >= trials_total:
            raise Enough
        return objective(trial)

    while True:
        optuna.storages.fail_stale_trials(study)
        states = Counter(trial.state for trial in study.get_trials(deepcopy=False))
        if states[TrialState.WAITING] or taken(study) < trials_total:
            study.optimize(one, n_trials=1, catch=Enough)
        elif states[TrialState.RUNNING]:
            time.sleep(0.1)
        else:
            return


def taken(study, before=float("inf")):
    counts = (TrialState.PRUNED, TrialState.COMPLETE, TrialState.RUNNING, TrialState.WAITING)
    return sum(trial.state in counts and trial.number < before for trial in study.get_trials(deepcopy=False))
