"""Runs the learner's worker() in several processes on one study in SQLite, and decides when each trial ends, and how.

Runs in the supervisor, which never loads the program. In every life the objective is replaced by one that says which
trial it is asked for, and waits. The conductor, in the director, gives it its value, or kills its process, when the
others are where they should be. What came of it all is read from the database, by sqlite3.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.ranks.lives import Lives
from grader.ranks.lives.watch import Step
from grader.sandbox.first import settle
from grader.sandbox.program import MODULE

STUDY = "search"
SHARED = "shared"  # the folder of what is temporary
TICK_SECONDS = 0.02
MEET_SECONDS = 6.0  # in which all processes come to their first trials: one that never does is not waited for
SETTLE_SECONDS = 0.7  # in which nothing was begun and nothing ended: what was to happen has happened
BEGIN, ASK, TRIAL = "begin_", "ask_", "trial_"  # files that tell: a process is there, takes a trial, and is in it
FIRST_SECONDS = 2.0  # the same before all are in their first trials: one may still start, and not wait for a lock
BEAT_SECONDS = 8.0  # in which a heartbeat of a trial that runs is in the database, if there is any
LATE_SECONDS = 2  # without a heartbeat
KEEP_SECONDS = 0.5  # so often heartbeats that there are get a new time: a process that lives may lack the processor
PATIENCE_SECONDS = 20.0
CPU_SECONDS = 25
DEAD_SECONDS = 5  # so long ago the killed one's last heartbeat is made to be,
NOTICE_SECONDS = 12.0  # and kept so for so long, while the others have nothing to do but to notice
SLOW_SECONDS = 5.5  # so long a trial of a living process runs, at least
DIRECTION = "SELECT d.direction FROM study_directions d JOIN studies s USING (study_id) WHERE s.study_name = ?"
STATES = "SELECT t.number, t.state, t.trial_id FROM trials t JOIN studies s USING (study_id) WHERE s.study_name = ?"


# ---- in a life


def _work(functions: dict[str, Any], url: str, total: int, told: Path, answers: Path, shared: Path) -> None:
    """Call the learner's worker(), with an objective that is ours, where processes of one machine share temporary files:
    a lock that is one of those shuts the others out here, too."""
    settle(str(shared))
    names = vars(sys.modules[MODULE])

    def objective(trial: Any) -> float:
        return _asked(trial, told, answers)

    _gate(told, answers)
    _wait(f"{BEGIN}{os.getpid()}", told, answers)
    names["objective"] = objective
    try:
        functions["worker"](url, STUDY, total)
    except AssertionError as error:  # of Optuna's own, while it cleans up after what matters
        hidden = error.__context__
        if hidden is None:
            raise
        text = f"{error} (after {type(hidden).__name__}: {hidden.__cause__ or hidden})"
        raise AssertionError(text).with_traceback(error.__traceback__) from None
    (told / "end").touch()


def _gate(told: Path, answers: Path) -> None:
    """Have a trial taken only when the conductor lets it: then all that look before they leap have looked."""
    from optuna.study import Study

    ask = Study.ask

    def gated(study: Any, *arguments: Any, **named: Any) -> Any:
        _wait(f"{ASK}{os.getpid()}_{time.monotonic_ns()}", told, answers)
        return ask(study, *arguments, **named)

    Study.ask = gated


def _wait(name: str, told: Path, answers: Path) -> str:
    """The conductor's answer, whenever it likes."""
    (told / name).touch()
    while not (answers / name).exists():
        time.sleep(TICK_SECONDS / 2)
    return (answers / name).read_text()


def _asked(trial: Any, told: Path, answers: Path) -> float:
    """The value of a trial, which is the conductor's."""
    import optuna

    x, size = trial.suggest_float("x", -10.0, 10.0), trial.suggest_int("size", 1, 64)
    name = f"{TRIAL}{int(trial.number)}_{float(x).hex()}_{int(size)}_{os.getpid()}_{time.monotonic_ns()}"
    answer = _wait(name, told, answers)
    if answer == "pruned":
        raise optuna.TrialPruned
    return float(answer)


# ---- in the director


@dataclass
class Asked:
    """One call of the objective; times in seconds since the conductor began."""

    name: str
    rank: int
    process: int
    number: int
    x: float
    size: int
    begin: float
    end: float | None = None
    became: str = "held"
    value: float | None = None
    younger: int = 0  # by so many seconds the study takes its trial to be younger than it is


@dataclass
class Plan:
    """What is to happen: which call of the objective (1 is the first) is killed in, whether only when nothing else is
    left to do; which calls are pruned; whether the first one lasts long, in a process that lives; whether the first call
    that tries a killed one's parameters again is killed in, too."""

    killed: int = 0
    last: bool = False
    pruned: tuple[int, ...] = ()
    slow: bool = False
    again: bool = False


@dataclass
class Conductor:
    """Holds every call of the objective until all living processes are in one, or nothing happens any more."""

    database: Path
    answers: Path
    ranks: int
    total: int
    plan: Plan
    values: random.Random
    asked: list[Asked] = field(default_factory=list)
    processes: dict[int, int] = field(default_factory=dict)  # by rank
    gates: dict[str, int] = field(default_factory=dict)  # who waits to begin, or to take a trial: the rank
    at_once: int = 0
    met: bool = False

    def __post_init__(self) -> None:
        self.lock, self.over = threading.Lock(), threading.Event()
        self.started = self.since = self.kept_alive = time.monotonic()
        self.seen: Any = None
        self.names: set[str] = set()
        self.ended: set[int] = set()
        self.aged: set[int] = set()  # trials that were made to be older than they are
        self.dead: Asked | None = None  # the killed one's, until somebody notices
        self.due: float | None = None  # since when it is to be noticed
        self.unnoticed = False
        self.problem = ""

    def __call__(self, step: Step) -> bool:
        """A process touches one of the files by which it tells what it does."""
        with self.lock:
            self.processes.setdefault(step.rank, step.process)
            if step.name in self.names:
                return False
            self.names.add(step.name)
            if step.name.startswith((BEGIN, ASK)):
                self.gates[step.name] = step.rank
            if step.name.startswith(TRIAL):
                with contextlib.suppress(ValueError, OverflowError):  # a name that is not ours
                    number, x, size = step.name.split("_")[1:4]
                    call = (step.name, step.rank, step.process, int(number), float.fromhex(x), int(size), self.now())
                    self.asked.append(Asked(*call))
        return False

    def now(self) -> float:
        return time.monotonic() - self.started

    def conduct(self) -> None:
        """Until `over` is set."""
        while not self.over.wait(TICK_SECONDS):
            with self.lock:
                try:
                    self._turn()
                except sqlite3.DatabaseError as error:  # the database is the learners' to spoil
                    if "locked" not in str(error):
                        self.problem = f"{type(error).__name__}: {error}"
                        self._end_all()

    def _end_all(self) -> None:
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def _turn(self) -> None:
        ended = self.ended = {rank for rank, process in self.processes.items() if not _lives(process)}
        for call in self.asked:
            if call.became == "held" and call.rank in ended:
                call.became, call.end = "left", self.now()
        held = [call for call in self.asked if call.became == "held"]
        if held and not self.plan.slow and time.monotonic() - self.kept_alive > KEEP_SECONDS:
            self.kept_alive = time.monotonic()
            late = [self.dead] if self.dead is not None and self.due is None else []
            _keep_alive(self.database, [call.number for call in (*held, *late)])
        if not self.plan.slow:
            self._keep_young(held)
        self.gates = {name: rank for name, rank in self.gates.items() if rank not in ended}
        states = self._states()
        now = (len(self.names), sorted(ended), len(held), states)
        if now != self.seen:
            self.seen, self.since = now, time.monotonic()
        if self.dead is not None:
            self._await_notice(self.dead, held, states)
        self.at_once = max(self.at_once, len({call.rank for call in held}))
        busy = {call.rank for call in held} | ended | set(self.gates.values())
        quiet = time.monotonic() - self.since
        enough = SETTLE_SECONDS if self.met else FIRST_SECONDS
        if len(self.processes) < self.ranks or not (len(busy) >= self.ranks or quiet > enough):
            return
        coming = self.plan.slow and len(held) < self.ranks - 1 and quiet <= MEET_SECONDS
        early = self.ranks - 1 if coming else None  # this one comes when the others work
        waiting = {name: rank for name, rank in self.gates.items() if rank == early and name.startswith(BEGIN)}
        for name in self.gates.keys() - waiting.keys():
            self._write(name, "go")
        self.met = self.met or len({call.rank for call in held} | ended) >= min(self.ranks, self.total)
        if held and not self.gates and (self.met or quiet > MEET_SECONDS):
            self.met = True
            self._next(held, quiet)
        self.gates = waiting

    def _next(self, held: list[Asked], quiet: float) -> None:
        """End one trial that is held, if its time has come."""
        victim = self.asked[self.plan.killed - 1] if 0 < self.plan.killed <= len(self.asked) else None
        retry = self._retry(victim) if self.plan.again and victim is not None else None
        if retry is not None and retry.became == "held":
            self._kill(retry)
            return
        others = [call for call in held if call is not victim]
        if victim is not None and victim.became == "held" and not (self.plan.last and others):
            if not self.plan.last or len(self.ended) == self.ranks - 1 or quiet > SETTLE_SECONDS:
                self._kill(victim)
            return
        first = self.asked[0]
        if self.plan.slow and first in held:
            if self.now() - first.begin < SLOW_SECONDS:
                if first.number not in self.aged:
                    self.aged.add(first.number)
                    _turn_back(self.database, first.number, 3600, beats=False)
                return
            if others:
                held = others
            elif quiet <= SETTLE_SECONDS and len(self.ended) < self.ranks - 1:
                return
        self._answer(held[0])

    def _retry(self, victim: Asked) -> Asked | None:
        """The first call after `victim` that has its parameters."""
        later = (call for call in self.asked if call.number > victim.number)
        return next((call for call in later if (call.x, call.size) == (victim.x, victim.size)), None)

    def _keep_young(self, held: list[Asked]) -> None:
        """On a busy machine all takes a while. Whether a trial is judged by its age is asked where one is to be old."""
        for call in held:
            if self.now() - call.begin - call.younger > LATE_SECONDS:
                call.younger += LATE_SECONDS
                _turn_back(self.database, call.number, -LATE_SECONDS, beats=False)

    def _answer(self, call: Asked) -> None:
        pruned = self.asked.index(call) + 1 in self.plan.pruned
        call.became, call.end = "pruned" if pruned else "done", self.now()
        call.value = None if pruned else round(self.values.uniform(-100, 100), 6)
        self._write(call.name, "pruned" if pruned else repr(call.value))

    def _write(self, name: str, answer: str) -> None:
        new = self.answers / f"{name}.new"
        new.write_text(answer)
        new.rename(self.answers / name)

    def _kill(self, call: Asked) -> None:
        """SIGKILL, when the trial has a heartbeat, or will have none; then some seconds pass for it."""
        if self.now() - call.begin < BEAT_SECONDS and not _beats(self.database, call.number):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(call.process, signal.SIGKILL)
        while _lives(call.process):
            time.sleep(TICK_SECONDS / 4)
        call.became, call.end = "killed", self.now()
        if self.plan.last or self.plan.again:
            _turn_back(self.database, call.number, DEAD_SECONDS, beats=True)
        else:
            self.dead = call

    def _await_notice(self, dead: Asked, held: list[Asked], states: dict[int, str]) -> None:
        """When the others have nothing to do any more, the killed one's last heartbeat was 5 s ago, and stays so: who
        notices a death only later does not notice it."""
        if states.get(dead.number) != "RUNNING":
            self.dead = None
            return
        if self.due is None:
            done = sum(state == "COMPLETE" for state in states.values())
            if held or (done < self.total - 1 and time.monotonic() - self.since <= SETTLE_SECONDS):
                return
            self.due = time.monotonic()
            _turn_back(self.database, dead.number, DEAD_SECONDS, beats=False)
        if time.monotonic() - self.due > NOTICE_SECONDS:
            self.dead, self.unnoticed = None, _beats(self.database, dead.number)
            return
        _last_heard(self.database, dead.number, DEAD_SECONDS)

    def _states(self) -> dict[int, str]:
        with _open(self.database) as database:
            return {number: state for number, state, _ in database.execute(STATES, (STUDY,))}


def _lives(process: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@contextlib.contextmanager
def _open(path: Path) -> Any:
    """The database, in a transaction of its own."""
    database = sqlite3.connect(path, timeout=10)
    try:
        with database:
            yield database
    finally:
        database.close()


def _beats(path: Path, number: int) -> bool:
    with _open(path) as database:
        return bool(database.execute(f"SELECT 1 FROM trial_heartbeats JOIN ({STATES}) USING (trial_id) WHERE number = ?",
                                     (STUDY, number)).fetchall())  # fmt: skip


def _keep_alive(path: Path, numbers: list[int]) -> None:
    """Of trials that had a heartbeat, but long ago, and whose processes live: it has just come.

    Nothing is written where all is well: a process that has read and is about to write would find the database locked.
    """
    late = "SELECT 1 FROM trial_heartbeats WHERE trial_id = ? AND heartbeat < datetime('now', ?)"
    with _open(path) as database:
        trials = [trial for number, _, trial in database.execute(STATES, (STUDY,)).fetchall() if number in numbers]
        for trial in trials:
            if database.execute(late, (trial, f"-{LATE_SECONDS} seconds")).fetchone() is None:
                continue
            database.execute("UPDATE trial_heartbeats SET heartbeat = CURRENT_TIMESTAMP WHERE trial_id = ?", (trial,))


def _last_heard(path: Path, number: int, seconds: int) -> None:
    """A trial's last heartbeat, if it has any, was so many seconds ago, or one more; no write where it was."""
    age = "(julianday('now') - julianday(heartbeat)) * 86400"
    with _open(path) as database:
        found = database.execute(f"SELECT trial_id, {age} FROM trial_heartbeats JOIN ({STATES}) USING (trial_id) "
                                 "WHERE number = ?", (STUDY, number)).fetchone()  # fmt: skip
        if found is not None and found[1] < seconds:
            when = (f"-{seconds} seconds", found[0])
            database.execute("UPDATE trial_heartbeats SET heartbeat = datetime('now', ?) WHERE trial_id = ?", when)
        elif found is not None and found[1] > seconds + 1.5:  # in whole seconds it is one more at most
            when = (f"{math.ceil(found[1] - seconds - 1.5):+d} seconds", found[0])
            database.execute("UPDATE trial_heartbeats SET heartbeat = datetime(heartbeat, ?) WHERE trial_id = ?", when)


def _turn_back(path: Path, number: int, seconds: int, beats: bool) -> None:
    """Make it that much longer ago (less, below 0) that a trial began, and with `beats` that its process was last heard of."""
    earlier = f"{-seconds:+d} seconds"
    with _open(path) as database:
        found = database.execute(f"SELECT trial_id FROM ({STATES}) WHERE number = ?", (STUDY, number)).fetchone()
        if found is None:
            return
        tables = {"trials": "datetime_start", **({"trial_heartbeats": "heartbeat"} if beats else {})}
        for table, column in tables.items():
            database.execute(
                f"UPDATE {table} SET {column} = datetime({column}, ?) WHERE trial_id = ?", (earlier, found[0])
            )


# ---- what the exercise calls


def searches(lives: Lives, runs: list[list[int]], plan: list[Any], seed: int) -> list[dict[str, Any]]:
    """Calls of worker() on one study, one after another: each by so many processes, with so many trials in all.

    `plan` is for the first of them. Of each: what its processes asked for, how they ended, and what the database holds
    of the study then.
    """
    import optuna

    room = Path(tempfile.mkdtemp(prefix="study-"))
    database = room / "study.db"
    (room / SHARED).mkdir()
    optuna.storages.RDBStorage(f"sqlite:///{database}").engine.dispose()  # the tables: two that make them would collide
    values, told = random.Random(seed), []
    for number, (ranks, total) in enumerate(runs):
        killed, last, pruned, slow, again = plan if number == 0 else (0, False, [], False, False)
        told.append(_search(lives, room, ranks, total, Plan(killed, last, tuple(pruned), slow, again), values))
    shutil.rmtree(room)
    return told


def _search(
    lives: Lives, room: Path, ranks: int, total: int, plan: Plan, values: random.Random
) -> dict[str, Any]:  # fmt: skip
    folder, answers = Path(tempfile.mkdtemp(prefix="told-")), Path(tempfile.mkdtemp(prefix="answers-"))
    conductor = Conductor(room / "study.db", answers, ranks, total, plan, values)
    thread = threading.Thread(target=conductor.conduct)
    thread.start()
    try:
        life = lives.run(
            _work, f"sqlite:///{room / 'study.db'}", total, folder, answers, room / SHARED, ranks=ranks, strangers=True,
            folder=folder, rooms=[room, answers], strike=conductor, patience=PATIENCE_SECONDS, cpu_seconds=CPU_SECONDS,
        )  # fmt: skip
    finally:
        conductor.over.set()
        thread.join()
    shutil.rmtree(folder)
    shutil.rmtree(answers)
    return {
        "ranks": ranks, "total": total, "at_once": conductor.at_once, "problem": conductor.problem, "unnoticed": conductor.unnoticed,
        "asked": [_plain(call) for call in conductor.asked],
        "ended": [process.event for process in life.processes], "end": conductor.now(),
        **_found(room / "study.db"),
    }  # fmt: skip


def _plain(call: Asked) -> dict[str, Any]:
    names = ("rank", "number", "x", "size", "begin", "end", "became", "value")
    return {name: getattr(call, name) for name in names}


def _found(path: Path) -> dict[str, Any]:
    """Studies, the study's direction and its trials in the database; why they cannot be read, where they cannot."""
    try:
        with _open(path) as database:
            studies = [name for (name,) in database.execute("SELECT study_name FROM studies ORDER BY study_id")]
            direction = [word for (word,) in database.execute(DIRECTION, (STUDY,))]
            trials = {
                trial: {"number": number, "state": state, "x": None, "size": None, "value": None}
                for number, state, trial in database.execute(STATES + " ORDER BY t.trial_id", (STUDY,))
            }
            for trial, name, value in database.execute("SELECT trial_id, param_name, param_value FROM trial_params"):
                if trial in trials and name in ("x", "size"):
                    trials[trial][name] = value
            for trial, value in database.execute("SELECT trial_id, value FROM trial_values"):
                if trial in trials:
                    trials[trial]["value"] = value
    except sqlite3.Error as error:
        return {"studies": [], "direction": [], "trials": [], "unreadable": f"{error}"}
    return {"studies": studies, "direction": direction, "trials": list(trials.values()), "unreadable": ""}
