"""One call of a learner's process_all: fn waits at the gate until it is let through, and what held while it did."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count, product
from typing import Any

from grader.jobs.rays.bench import RayBench
from grader.jobs.rays.lease import CPUS, Said
from grader.lost import Lost
from grader.trace.gantt import Bar, Became, Chart
from grader.verdict import Diagnosis

CALL_SECONDS = 60.0
QUIET_SECONDS = 2.0  # without news after which no further task is waited for,
PATIENT_SECONDS = 8.0  # and where that costs points
TABLES_SECONDS = 10.0  # Ray's processes tell its tables every 0.1 s


@dataclass
class Begun:
    """One call of fn. Times are ns since 1970, as Ray's tables have them."""

    item: str
    task: str
    pid: int
    role: str
    begin: int
    end: int = 0
    became: Became = "done"


@dataclass
class Shift:
    """One call of process_all: who waits at the gate, and is let through. Items are known by their names (see `named`)."""

    bench: RayBench
    label: str
    items: list[Any]
    values: dict[str, Any]  # by an item's name
    limit: int
    captured: int = 64
    deaths: tuple[str, ...] = ()  # items in whose first call the worker is killed
    slow: str = ""  # the item whose call is let through only after all others
    behind: int | None = None  # if nothing came for too long while that call waited: so many calls waited, with it
    begun: list[Begun] = field(default_factory=list)
    waiting: list[tuple[Said, Begun]] = field(default_factory=list)
    most: int = 0  # that have waited together
    serialised: int = 0
    patient: bool = True
    patience: float = QUIET_SECONDS
    number: int = field(default_factory=count().__next__)  # by which calls of fn that another one left behind are known
    result: list[Any] | None = None
    type_name: str = ""
    _news: float = 0.0

    def run(self) -> Shift:
        """Raises Lost."""
        self._news = time.monotonic()
        try:
            answer = self.bench.call(
                "process_all", "process", self.items, self.limit, self.captured, self.number,
                seconds=CALL_SECONDS, said=self._said, idle=self._idle,
            )  # fmt: skip
        except Lost as trouble:
            trouble.picture = self.chart()
            raise
        self.type_name, self.result = str(answer[0])[:100], answer[1]
        return self

    def _said(self, said: Said) -> None:
        self._news = time.monotonic()
        if said.what["what"] == "serialised":
            self.serialised += said.what.get("call") == self.number
            self.bench.driver.answer(said)
            return
        if said.what.get("call") != self.number:
            self.bench.driver.answer(said)
            return
        item = named(said.what["item"])[:100]
        begun = Begun(item, str(said.what["task"])[:100], said.pid, said.role, time.time_ns())
        again = any(before.item == item for before in self.begun)
        self.begun.append(begun)
        if item in self.deaths and not again:
            self.bench.driver.kill(said.pid)
            begun.end, begun.became = time.time_ns(), "died"
            return
        self.waiting.insert(0 if item == self.slow else len(self.waiting), (said, begun))
        self.most = max(self.most, len(self.waiting))
        self._release()

    def _idle(self) -> None:
        """Nobody has come for a while: wait on only as long as something may still be on its way."""
        if self.waiting and time.monotonic() - self._news > self.patience:
            if self.patient and self.waiting[0][1].item == self.slow:
                self.behind = len(self.waiting)
            self.patient = False
            self._release()

    def _release(self) -> None:
        """Let calls through, the last that came first, where as many wait as can run at the same time."""
        done = Counter(each.item for each in self.begun if each.end and each.became == "done")
        left = (Counter(map(named, self.items)) - done).total()
        busy = min(self.limit, CPUS, left)
        while self.waiting and (not self.patient or len(self.waiting) >= busy):
            if self.patient and left > 1 and self.waiting[-1][1].item == self.slow:
                break
            said, begun = self.waiting.pop()
            begun.end = time.time_ns()
            self.bench.driver.answer(said, self.values.get(begun.item))
            busy, left = busy - 1, left - 1

    def chart(self) -> Chart:
        pids = list(dict.fromkeys(each.pid for each in self.begun))
        names = {pid: f"w{number}" for number, pid in enumerate(pids, 1)}
        first, now = min((each.begin for each in self.begun), default=0), time.time_ns()
        chart = Chart(tuple(names.values()) or ("no worker",), subtitle=self.label)
        for each in self.begun:
            end = each.end or now
            begins, ends = (each.begin - first) / 1e9, (end - first) / 1e9
            chart.bars.append(Bar(names[each.pid], begins, ends, str(each.item), each.became))
            if each.became == "died":
                chart.gone[names[each.pid]] = ends
            chart.end = max(chart.end, ends)
        return chart

    # ---- what must hold

    def lost(self, found: Diagnosis) -> Lost:
        return Lost(found, self.chart())

    def by_workers(self) -> Shift:
        """Raises Lost where fn was called elsewhere than in Ray's workers, or not for every item."""
        found = self.bench.found
        outside = [each for each in self.begun if each.role != "worker"]
        if outside:
            text = f"{self.label}. fn was called in the {outside[0].role}'s own process. Call fn only in tasks of Ray."
            raise self.lost(found("wrong_result", text, "fn runs in Ray's workers", f"in the {outside[0].role}"))
        missing = [item for item in self.items if not any(each.item == named(item) for each in self.begun)]
        if missing:
            text = f"{self.label}. fn was never called for {missing[0]!r}. Submit a task for every item."
            raise self.lost(found("wrong_result", text, f"{len(self.items)} items", f"{len(missing)} without a call"))
        return self

    def right(self, ordered: bool = True) -> Shift:
        """Raises Lost where the result is wrong; its order matters only if `ordered`."""
        found, want = self.bench.found, [self.values[named(item)] for item in self.items]
        if self.result is None:
            text = f"{self.label}. process_all returned a {self.type_name}. Return a list."
            raise self.lost(found("wrong_result", text, "a list", self.type_name))
        if self.result == want and list(map(type, self.result)) == list(map(type, want)):
            return self
        same = sorted(map(repr, self.result)) == sorted(map(repr, want))
        if same and not ordered:
            return self
        why = "These are the right results in another order. Return them in the order of the items." if same else ""
        text = f"{self.label}. process_all returned {told(self.result)} instead of {told(want)}. {why}".strip()
        raise self.lost(found("wrong_result", text, told(want), told(self.result)))

    def in_flight(self) -> int:
        """How many tasks there were at most at the same time: submitted, as Ray's tables have it, and fn not yet over."""
        ends = {each.task: each.end for each in self.begun}
        until = time.monotonic() + TABLES_SECONDS
        while True:
            known: dict[str, int] = {}
            for task in self.bench.driver.tasks():
                at = task["times"].get("PENDING_ARGS_AVAIL")
                if task["id"] in ends and at is not None:
                    known[task["id"]] = min(at, known.get(task["id"], at))
            if len(known) == len(ends):
                break
            if time.monotonic() > until:
                text = f"{self.label}. Ray knows only {len(known)} of the {len(ends)} tasks in which fn was called."
                raise self.lost(self.bench.found("wrong_result", text, f"{len(ends)} tasks", str(len(known))))
            time.sleep(0.05)
        changes = sorted([(at, 1) for at in known.values()] + [(end, -1) for end in ends.values()])
        now = most = 0
        for _, change in changes:
            now += change
            most = max(most, now)
        return most


def named(item: Any) -> str:
    """What an item is known by: a text as it is, anything else as JSON."""
    return item if isinstance(item, str) else json.dumps(item)


def told(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def shift(
    bench: RayBench, rng: random.Random, many: int, limit: int, what: str, odd: bool = False, **more: Any
) -> Shift:
    """A call with so many items that are strings and differ; if `odd`, with lists and dicts, and each of them twice."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = [*letters, *map("".join, product(letters, letters))]
    items: list[Any] = [f"{name}{rng.randrange(100)}" for name in names[:many]]
    if odd:
        items = [[items[0]], items[1], {"name": items[2]}, *items[3:]]
        items = [*items, *items]
    rng.shuffle(items)
    values = {
        named(item): rng.choice((rng.randrange(1000), rng.randrange(1000), 0, "", [rng.randrange(9)], None))
        for item in items
    }
    if odd:  # a place that was never filled shows
        values = {item: value if value is not None else 1 for item, value in values.items()}
    elif items:  # a result like any other
        values[named(items[-1])] = None
    label = f"{len(items)} item{'s' * (len(items) != 1)}, max_in_flight={limit}{what}"
    return Shift(bench, label, items, values, limit, **more)
