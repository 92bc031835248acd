"""Asks and tells, with a thread of its own for the heartbeat; what it has too many it gives up by its number."""

import threading
import time

import optuna
from optuna.trial import TrialState

LIVE = {TrialState.COMPLETE, TrialState.RUNNING, TrialState.WAITING}


def objective(trial):
    return trial.suggest_int("layers", 1, 8)


def again(study, dead):
    study.add_trial(
        optuna.create_trial(state=TrialState.WAITING, params=dead.params, distributions=dead.distributions)
    )


def worker(storage_url, study_name, trials_total):
    storage = optuna.storages.RDBStorage(
        storage_url, heartbeat_interval=1, grace_period=3, heartbeat_stale_trial_callback=again
    )
    try:
        study = optuna.create_study(storage=storage, study_name=study_name)
    except optuna.exceptions.DuplicatedStudyError:
        study = optuna.load_study(storage=storage, study_name=study_name)
    while True:
        optuna.storages.fail_stale_trials(study)
        trials = study.get_trials(deepcopy=False)
        live = [trial for trial in trials if trial.state in LIVE]
        waiting = [trial for trial in live if trial.state == TrialState.WAITING]
        if len(live) >= trials_total and not waiting:
            if all(trial.state == TrialState.COMPLETE for trial in live):
                return
            time.sleep(0.05)
            continue
        trial = study.ask()
        earlier = study.get_trials(deepcopy=False)[: trial.number]
        if sum(other.state in LIVE for other in earlier) >= trials_total:
            study.tell(trial, state=TrialState.FAIL)
            continue
        run(storage, study, trial)


def run(storage, study, trial):
    over = threading.Event()

    def beat():
        storage.record_heartbeat(trial._trial_id)
        while not over.wait(1):
            storage.record_heartbeat(trial._trial_id)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        study.tell(trial, objective(trial))
    except optuna.TrialPruned:
        study.tell(trial, state=TrialState.PRUNED)
    finally:
        over.set()
        thread.join()
