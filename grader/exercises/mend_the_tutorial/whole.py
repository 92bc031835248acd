"""Judges global_means: its values, and when it submits its tasks, with all of Ray's CPUs taken until it has."""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from grader import says
from grader.jobs.rays.bench import RayBench
from grader.jobs.rays.lease import CPUS, Said
from grader.lost import Lost, Unable
from grader.trace.gantt import Bar, Chart

CALL_SECONDS = 60.0
TABLES_SECONDS = 20.0  # Ray's processes tell its tables every 0.1 s
QUIET_SECONDS = 1.0  # without another task when there is one for each file: those may be more
PATIENT_SECONDS = 8.0  # without another task, after which none is waited for
HELD, LAST, NORMAL = "_hold", "_last", 0  # the names of our own tasks, and Ray's number for a task that is no actor's
Row = tuple[str, float]


@dataclass
class _Reading:
    """One call of global_means: tasks of ours take all CPUs until as many tasks as files are there, or no more come."""

    bench: RayBench
    label: str
    files: list[list[Row]]
    number: int = field(default_factory=count().__next__)
    submitted: int = 0  # before any could run
    tasks: list[dict[str, Any]] = field(default_factory=list)
    _held: list[Said] = field(default_factory=list)
    _begun: Said | None = None
    _news: float = 0.0
    _over: bool = False

    def run(self) -> Any:
        """What was returned: a type's name, and pairs. Raises Lost."""
        contents = [
            "".join(json.dumps({"key": key, "value": value}) + "\n" for key, value in file) for file in self.files
        ]
        try:
            found = self.bench.call(
                "global_means",
                "means",
                contents,
                CPUS,
                self.number,
                seconds=CALL_SECONDS,
                said=self._said,
                idle=self._idle,
            )
        except Lost as trouble:
            trouble.picture = self.chart()
            raise
        self.tasks = self._all()
        return found

    def _said(self, said: Said) -> None:
        what = said.what.get("what")
        if said.what.get("call") != self.number:
            self.bench.driver.answer(said)
        elif what == "held":
            self._held.append(said)
        elif what == "begin":
            self._begun = said
        else:
            self.bench.driver.answer(said)
            self._let_go()
        if self._begun is not None and len(self._held) == CPUS:
            self.bench.driver.answer(self._begun)
            self._begun, self._news = None, time.monotonic()
        if self._over:
            self._let_go()

    def _idle(self) -> None:
        """Nothing is said for a while: how many tasks are there?"""
        if self._over or not self._news:
            return
        here = len(self._known())
        if here > self.submitted:
            self.submitted, self._news = here, time.monotonic()
        quiet = time.monotonic() - self._news
        if quiet > (QUIET_SECONDS if self.submitted >= len(self.files) else PATIENT_SECONDS):
            self._let_go()

    def _let_go(self) -> None:
        self._over = True
        for said in self._held:
            self.bench.driver.answer(said)
        self._held = []

    def _all(self) -> list[dict[str, Any]]:
        """The learner's tasks when the call is over. A driver tells what it has submitted in order, so all of them are
        there when our last one is. Raises Unable where that never comes."""
        until = time.monotonic() + TABLES_SECONDS
        while not any(task["name"] == f"{LAST} {self.number}" for task in self.bench.driver.tasks()):
            if time.monotonic() > until:
                raise Unable("Not judged, because Ray's tables do not tell which tasks were submitted.")
            time.sleep(0.05)
        return self._known()

    def _known(self) -> list[dict[str, Any]]:
        """The learner's tasks so far, in the order in which they were submitted."""
        known = {
            task["id"]: task
            for task in self.bench.driver.tasks()
            if task["name"].split(" ")[0] not in (HELD, LAST) and task["kind"] == NORMAL and task["attempt"] == 0
        }
        before: dict[str, int] = self.bench.kept.setdefault("tasks", {})  # by which call
        mine = [task for key, task in known.items() if before.setdefault(key, self.number) == self.number]
        return sorted(mine, key=lambda task: min(task["times"].values(), default=0))

    def chart(self) -> Chart:
        """Each task from when it was submitted to its end."""
        chart = Chart(tuple(f"task {at}" for at in range(1, len(self.tasks) + 1)) or ("no task",), subtitle=self.label)
        first = min((min(task["times"].values(), default=0) for task in self.tasks), default=0)
        for at, task in enumerate(self.tasks, 1):
            times = [(each - first) / 1e9 for each in task["times"].values()] or [0.0]
            chart.bars.append(Bar(f"task {at}", min(times), max(times), str(task["name"])[:40], "done"))
            chart.end = max(chart.end, max(times))
        return chart


def _drawn(bench: RayBench, label: str, sizes: list[int]) -> _Reading:
    """Files with so many rows; values are eighths, so that sums are exact in any order. In those with three rows or more
    one row is there twice, and the last value is zero: such rows count, too."""
    rng = bench.rng(label)
    names = [f"k{rng.randrange(10**6)}" for _ in range(3)]
    files = [[(names[min(2, rng.randrange(4))], rng.randrange(-800, 800) / 8) for _ in range(size)] for size in sizes]
    for file in files:
        if len(file) >= 3:
            file[-2:] = [file[0], (file[0][0], 0.0)]
    return _Reading(bench, label, files)


def global_means(bench: RayBench) -> Chart:
    first: Chart | None = None
    for label, sizes in (
        # More than anybody may want to have under way at a time.
        ("34 files of different lengths, one of them empty", [1, 7, 0, 3, 12, 1, 2, 5, 4, *(25 * [2])]),
        ("1 file", [3]),
        ("no file", []),
        ("3 files, all empty", [0, 0, 0]),
    ):
        one = _drawn(bench, label, sizes)
        _values(one, one.run())
        _submitted(one)
        first = first or one.chart()
    assert first is not None
    return first


def _means(files: list[list[Row]]) -> dict[str, float]:
    by_key: dict[str, list[float]] = defaultdict(list)
    for file in files:
        for key, value in file:
            by_key[key].append(value)
    return {key: math.fsum(values) / len(values) for key, values in by_key.items()}


def _lost(one: _Reading, kind: Any, text: str, expected: str, got: str) -> Lost:
    return Lost(one.bench.found(kind, f"With {one.label}: {text}", expected, got), one.chart())


def _values(one: _Reading, found: Any) -> None:
    type_name, pairs = str(found[0])[:100], found[1]
    if pairs is None:
        text = f"global_means returned a {type_name}. Return a dict from each key to its mean."
        raise _lost(one, "wrong_result", text, "a dict", type_name)
    got, right = {str(key): value for key, value in pairs}, _means(one.files)
    if set(got) != set(right):
        gone, more = sorted(set(right) - set(got)), sorted(set(got) - set(right))
        what = f"lacks {says.some(gone, 3)}" if gone else f"has {says.some(more, 3)}, which no row has"
        text = f"the result {what}. Return one mean for every key that a row has."
        raise _lost(one, "wrong_result", text, says.counted(len(right), "key"), says.counted(len(got), "key"))
    of_files = _means([list(_means([file]).items()) for file in one.files])
    without_zeros = _means([[row for row in file if row[1]] for file in one.files])
    rows_once = _means([list(dict.fromkeys(file)) for file in one.files])
    of_last = {key: value for file in one.files for key, value in _means([file]).items()}
    paired = len(one.files) // 2 * 2  # of two files of one name the first, or the second
    one_of_a_name = [_means(one.files[::2]), _means(one.files[1:paired:2] + one.files[paired:])]
    for key, wanted in right.items():
        value = got[key]
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and math.isclose(value, wanted, rel_tol=1e-6, abs_tol=1e-9)
        ):
            continue
        why = "Add up the sums and the counts of all files, and divide at the end."
        if isinstance(value, (int, float)) and math.isclose(value, of_files[key], rel_tol=1e-9):
            why = f"{value:.6g} is the mean of the files' means, which counts a row of a short file more than one of a long file. {why}"
        elif isinstance(value, (int, float)) and math.isclose(value, of_last[key], rel_tol=1e-9):
            why = f"{value:.6g} is the mean of the last file that has the key. {why}"
        elif isinstance(value, (int, float)) and any(
            math.isclose(value, some.get(key, math.nan), rel_tol=1e-9) for some in one_of_a_name
        ):
            why = f"{value:.6g} is the mean if of two files of one name, in different folders, only one counts. {why}"
        elif isinstance(value, (int, float)) and math.isclose(value, without_zeros.get(key, math.nan), rel_tol=1e-9):
            why = f"{value:.6g} is the mean without the rows whose value is 0. They count, too."
        elif isinstance(value, (int, float)) and math.isclose(value, rows_once[key], rel_tol=1e-9):
            why = f"{value:.6g} is the mean if rows of a file that are equal count as one. Each of them counts."
        told = f"{value:.6g}" if isinstance(value, (int, float)) else f"a {value}"
        text = f"the mean of {key} is {told} instead of {wanted:.6g}. {why}"
        raise _lost(one, "wrong_result", text, f"{wanted:.6g}", told)


def _submitted(one: _Reading) -> None:
    files, tasks = len(one.files), len(one.tasks)
    if tasks < files or tasks >= max(2, 2 * files) + (files == 0):
        text = f"Ray ran {says.counted(tasks, 'task')}, calls of actors not counted. Submit one task for each file, which reads that file alone."
        raise _lost(one, "wrong_result", text, says.counted(files, "task"), says.counted(tasks, "task"))
    if one.submitted < files:
        at_once = "one after another" if one.submitted <= 1 else f"at most {one.submitted} at a time"
        text = (
            f"while no task could run, {one.submitted} of {files} tasks had been submitted, and no more came. So the "
            f"driver waits for a result before it submits the others, and the files are read {at_once}. Submit all tasks "
            "first, and call ray.get once, for all of them."
        )
        raise _lost(one, "no_overlap", text, f"{files} tasks before the first result", f"{one.submitted}")
    late = tasks - one.submitted
    if files > 1 and late >= files - 1:
        text = (
            f"{says.counted(late, 'task')} came only when earlier tasks were over. Submit all tasks before you wait for "
            "any of them."
        )
        raise _lost(one, "no_overlap", text, "all tasks before the first result", f"{late} later")
