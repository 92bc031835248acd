"""One Optuna study, several processes: who tried what when, how many trials were complete, and what a death leaves.

    run = search("exact", total=12, processes=3, killed=4)
    run                     who was in which trial when, as a time line
    run.states              how many trials are COMPLETE, FAIL, ...
    run.trials              each of them

Processes are real, share nothing but the study's storage, and die by SIGKILL. Needs Optuna
(`pip install 'rankup[jobs]'`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from courselib.svg import Drawn, Plot
from courselib.timeline import Box, timeline

STUDY = "search"
KINDS = ("COMPLETE", "PRUNED", "", "", "RUNNING", "FAIL")  # in the order of their colours
RULES = ("n_trials", "callback", "exact")
INTERVAL, GRACE = 1, 3  # seconds: a heartbeat, and how old the last one may be
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Trial:
    """One row of the study; times in seconds since the first trial began. `process` is -1 where nobody took it."""

    number: int
    state: str
    process: int
    begin: float
    end: float
    params: dict[str, float]
    value: float | None


@dataclass(frozen=True)
class Search(Drawn):
    """A study when all processes have ended. Shown, it is its time line."""

    trials: list[Trial]
    processes: int
    title: str

    @property
    def states(self) -> Counter[str]:
        return Counter(trial.state for trial in self.trials)

    @property
    def best(self) -> Trial:
        """The complete trial with the least value."""
        return min((trial for trial in self.trials if trial.value is not None), key=lambda trial: trial.value or 0.0)

    def picture(self) -> Plot:
        rows: dict[str, list[Box]] = {f"process {number}": [] for number in range(self.processes)}
        for trial in self.trials:
            if trial.process >= 0:
                rows[f"process {trial.process}"].append((trial.begin, trial.end, str(trial.number), trial.state))
        return timeline(self.title, rows, kinds=KINDS)


def search(
    rule: str, total: int = 12, processes: int = 3, killed: int | None = None, heartbeat: bool = True,
    storage: str | None = None, seconds: float = 0.25, title: str = "",
) -> Search:  # fmt: skip
    """Search with so many processes until each thinks that `total` trials are there, by its rule.

    "n_trials": each makes `total` trials. "callback": each stops when it sees `total` complete ones after a trial of
    its own. "exact": each takes a trial and then looks whether it is one too many, and waits for what others run. The
    process that takes trial `killed` dies in it, and by its `heartbeat` the others find that out. A trial takes about
    `seconds`. Without `storage`, an SQLAlchemy URL, it is a SQLite file of its own. Raises ValueError for another rule,
    RuntimeError where a process fails.
    """
    if rule not in RULES:
        raise ValueError(f"{rule!r} is none of {', '.join(RULES)}")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="rankup-study-") as folder:
        url = storage or f"sqlite:///{Path(folder, 'study.db')}"
        optuna.create_study(study_name=STUDY, storage=url)
        # Where nobody dies, a process that a busy machine has held up must not be taken for dead.
        beats = heartbeat and killed is not None
        told = {"url": url, "rule": rule, "total": total, "killed": killed, "heartbeat": beats, "seconds": seconds}
        workers = [_start(told | {"process": number}) for number in range(processes)]
        try:
            for worker in workers:
                assert worker.stdout is not None
                worker.stdout.readline()  # it has imported what it needs
            for worker in workers:
                assert worker.stdin is not None
                worker.stdin.write("go\n")
                worker.stdin.flush()
            ended = [(worker.communicate(timeout=PATIENCE_SECONDS)[1], worker.returncode) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        for errors, status in ended:
            if status not in (0, -signal.SIGKILL) or (status and killed is None):
                raise RuntimeError(f"a process of the search ended with status {status}: {errors.strip()[-500:]}")
        study = optuna.load_study(study_name=STUDY, storage=url)
        return Search(_told(study.get_trials()), processes, title or f"{processes} processes, {total} trials: {rule}")


def _start(told: dict[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "courselib.studies", json.dumps(told)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _told(trials: list[Any]) -> list[Trial]:
    began = [trial.datetime_start for trial in trials if trial.datetime_start]
    ended = [trial.datetime_complete for trial in trials if trial.datetime_complete]
    first, last = min(began), max([*ended, *began])
    found = []
    for trial in trials:
        begin = ((trial.datetime_start or last) - first).total_seconds()
        end = ((trial.datetime_complete or last) - first).total_seconds()
        found.append(
            Trial(trial.number, trial.state.name, trial.user_attrs.get("process", -1), begin, max(begin, end),
                  trial.params, trial.value)
        )  # fmt: skip
    return found


# ---- a process of the search


def _work(told: dict[str, Any]) -> None:
    import warnings

    import optuna
    from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
    from optuna.trial import TrialState

    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    beats: dict[str, Any] = {"heartbeat_interval": INTERVAL, "grace_period": GRACE} if told["heartbeat"] else {}
    storage = RDBStorage(
        told["url"], heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback() if beats else None, **beats
    )
    study = optuna.load_study(study_name=STUDY, storage=storage)
    total = told["total"]
    counting = (TrialState.COMPLETE, TrialState.RUNNING, TrialState.WAITING)

    def taken(before: float = float("inf")) -> int:
        return sum(trial.number < before and trial.state in counting for trial in study.get_trials(deepcopy=False))

    def objective(trial: Any) -> float:
        trial.set_user_attr("process", told["process"])
        if told["rule"] == "exact" and taken(trial.number) >= total:
            raise optuna.TrialPruned
        x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", -5, 5)
        time.sleep(told["seconds"] * (1 + 0.2 * told["process"]))  # the work: one process is slower than the other
        if trial.number == told["killed"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return float((x - 1) ** 2 + (y + 2) ** 2)

    print("ready", flush=True)
    sys.stdin.readline()
    if told["rule"] == "n_trials":
        study.optimize(objective, n_trials=total)
    elif told["rule"] == "callback":
        study.optimize(objective, callbacks=[optuna.study.MaxTrialsCallback(total, states=(TrialState.COMPLETE,))])
    else:
        while True:
            fail_stale_trials(study)
            left_open = Counter(trial.state for trial in study.get_trials(deepcopy=False))
            if taken() < total or left_open[TrialState.WAITING]:
                try:
                    study.optimize(objective, n_trials=1)
                except ValueError:  # the trial has failed: this process was so slow that it was taken for dead
                    continue
            elif left_open[TrialState.RUNNING]:
                time.sleep(0.1)
            else:
                return


if __name__ == "__main__":
    _work(json.loads(sys.argv[1]))
