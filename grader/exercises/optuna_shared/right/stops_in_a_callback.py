"""One call of optimize() after another, each ended by a callback; a trial that is too many prunes itself."""

import time

import optuna
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.trial import TrialState


def objective(trial):
    return sum((trial.suggest_float(name, -1, 1) - 0.5) ** 2 for name in "ab")


def worker(storage_url, study_name, trials_total):
    storage = RDBStorage(
        storage_url,
        heartbeat_interval=1,
        grace_period=2,
        heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=10),
    )
    study = optuna.create_study(storage=storage, study_name=study_name, load_if_exists=True, direction="minimize")

    def places():
        """How many trials may still be taken; those that wait have been given a place already."""
        return trials_total - len(
            study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.RUNNING, TrialState.WAITING))
        )

    def guarded(trial):
        if places() < 0:
            mine = sorted(t.number for t in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))
            if trial.number in mine[places() :]:
                raise optuna.TrialPruned
        return objective(trial)

    def enough(study, trial):
        if places() <= 0 and not waiting():
            study.stop()

    def waiting():
        return study.get_trials(deepcopy=False, states=(TrialState.WAITING,))

    while True:
        fail_stale_trials(study)
        if places() > 0 or waiting():
            study.optimize(guarded, callbacks=[enough])
        elif study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            time.sleep(0.1)
        else:
            return
