"""How long it takes to check histories of 5 to 30 clients, right and broken, up to 10,000 operations.

    python benchmarks/linearizability.py [--quick] [--repeat N]

Beside it the same histories in the textbook's way, in Python too: Wing and Gong's search with and without Lowe's
memoisation, key by key, a linked list of calls and returns and nothing more, which gives up after so many steps ("-").
A broken history has one read that returns what another one did. Its time includes finding the operation that cannot be
placed and the sentence about it. Times are CPU times. No checker of histories was found on PyPI to compare with.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from _common import ROOT, goal, save

from grader.nodes.histories import models
from grader.nodes.histories.checker import Checked, linearizable
from grader.nodes.histories.history import Operation, pair
from grader.nodes.histories.models import Model

sys.path.insert(0, str(ROOT / "tests" / "nodes" / "histories"))
import real_runs

TEXTBOOK_STEPS = 200_000


@dataclass(frozen=True)
class Sort:
    """Histories of one sort; `values`: how many different ones are written, 0 for a new one each time; `lost`: the
    share of operations of which nobody knows."""

    model: str
    operations: int
    keys: int
    clients: int
    values: int
    lost: float = 0.0

    def made(self, seed: int, broken: bool) -> list[Operation]:
        chance = random.Random(seed)
        names = [f"k{number}" for number in range(self.keys)]
        events = real_runs.events(chance, self.model, self.operations, self.clients, names, self.values, self.lost)
        while broken:
            wrong = pair(real_runs.mutated(chance, events))
            if linearizable(wrong, self.model).valid is False:
                return wrong
        return pair(events)


ONE_REGISTER = Sort("register", 200, 1, 5, 5)
TEN_KEYS = Sort("kv", 1000, 10, 10, 0)
SORTS = (
    ONE_REGISTER,
    Sort("register", 200, 1, 5, 0, 0.05),
    Sort("cas-register", 200, 1, 5, 5, 0.02),
    TEN_KEYS,
    Sort("register", 1000, 10, 30, 5, 0.02),
    Sort("kv", 1000, 10, 30, 5, 0.02),
    Sort("register", 1000, 1, 30, 0, 0.02),
    Sort("cas-register", 1000, 1, 5, 5, 0.0),
    Sort("register", 10_000, 1, 5, 5),
    Sort("register", 10_000, 1, 30, 0, 0.02),
    Sort("kv", 10_000, 100, 30, 0, 0.01),
)


def textbook(operations: Sequence[Operation], model: Model, memoised: bool) -> bool | None:
    """Whether there is an order; None where the steps were spent."""
    steps = TEXTBOOK_STEPS
    valid: bool | None = True
    for own in models.by_key(operations, model).values():
        found, steps = _one_key([one for one in own if one.status != "fail"], model, memoised, steps)
        if found is False:
            return False
        valid = valid if found else None
    return valid


def _one_key(own: list[Operation], model: Model, memoised: bool, steps: int) -> tuple[bool | None, int]:
    count = len(own)
    head = 2 * count
    entries = sorted(range(head), key=lambda at: own[at].called if at < count else own[at - count].returned)
    following, before = [0] * (head + 1), [0] * (head + 1)
    for one, other in zip([head, *entries], [*entries, head], strict=True):
        following[one], before[other] = other, one
    must = sum(one.status != "info" for one in own)
    state, taken, at = model.initial, 0, following[head]
    calls: list[tuple[int, Any]] = []
    seen: set[tuple[int, Any]] = set()
    while must:
        if at < count:
            fits, after = model.step(state, own[at])
            steps -= 1
            if steps < 0:
                return None, 0
            if fits and not (memoised and (taken | 1 << at, after) in seen):
                seen.add((taken | 1 << at, after))
                calls.append((at, state))
                state, taken, must = after, taken | 1 << at, must - (own[at].status != "info")
                for entry in (at, count + at):
                    following[before[entry]], before[following[entry]] = following[entry], before[entry]
                at = following[head]
            else:
                at = following[at]
            continue
        if not calls:  # a return that cannot be passed, and nothing left to take back
            return False, steps
        at, state = calls.pop()
        taken, must = taken ^ 1 << at, must + (own[at].status != "info")
        for entry in (count + at, at):
            following[before[entry]] = before[following[entry]] = entry
        at = following[at]
    return True, steps


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, which other work on the machine does not change much, and what came out."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def measure(sort: Sort, broken: bool, repeat: int) -> dict[str, Any]:
    """Medians over `repeat` histories of one sort, each side on the same ones, by turns."""
    model = models.MODELS[sort.model]
    ours: list[float] = []
    theirs: dict[bool, list[float | None]] = {True: [], False: []}
    steps = []
    for seed in range(repeat):
        operations = sort.made(seed, broken)
        seconds, found = timed(lambda operations=operations: linearizable(operations, model))  # type: ignore[misc]
        assert isinstance(found, Checked)
        assert found.valid is not broken, "a wrong verdict"
        ours.append(seconds if found.valid != "unknown" else float("inf"))
        steps.append(found.steps)
        for memoised, times in theirs.items():
            took, valid = timed(lambda operations=operations, memoised=memoised: textbook(operations, model, memoised))  # type: ignore[misc]
            assert valid in (None, not broken), "a wrong verdict of the textbook's"
            times.append(None if valid is None else took)
    row: dict[str, Any] = {**asdict(sort), "broken": broken, "seconds": statistics.median(ours), "most": max(ours)}
    row |= {"steps": round(statistics.median(steps)), "memory": peak()}
    for memoised, name in ((True, "memoised"), (False, "plain")):
        known = [each for each in theirs[memoised] if each is not None]
        row[name] = statistics.median(known) if 2 * len(known) > repeat else None
        row[f"{name}_gave_up"] = repeat - len(known)
    return row


def peak() -> int:
    """Bytes of memory that this process has held at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def told(row: dict[str, Any]) -> str:
    def side(name: str) -> str:
        seconds = row[name]
        return f"{1e3 * seconds:9.1f} {seconds / row['seconds']:6.1f}x" if seconds else f"{'-':>9} {'':7}"

    what = "broken" if row["broken"] else "right"
    values = row["values"] or "new"
    return (
        f"{row['model']:12} {row['operations']:6,} {row['keys']:4} {row['clients']:3} {values:>4} {row['lost']:5.0%} "
        f"{what:6} | {1e3 * row['seconds']:8.1f} {1e3 * row['most']:8.1f} {row['steps']:8,} "
        f"{row['memory'] / 2**20:5.0f} "
        f"| {side('memoised')} | {side('plain')}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5, help="histories of each sort; medians are printed")
    parser.add_argument("--quick", action="store_true", help="no history of more than 1,000 operations")
    given = parser.parse_args(arguments)
    print(f"{'':50} | {'rankup, ms':>17} {'':8} {'':5} | {'memoised, ms':17} | plain, ms")
    print(f"{'model':12} {'ops':>6} keys  cl vals  lost {'':6} | {'median':>8} {'most':>8} {'steps':>8} {'MiB':>5} |")
    rows = []
    for sort in SORTS:
        for broken in (False, True):
            if sort.operations <= 1000 or not given.quick:
                rows.append(measure(sort, broken, given.repeat))
                print(told(rows[-1]), flush=True)
    print()

    def slowest(sort: Sort) -> float:
        return max(row["seconds"] for row in rows if all(row[name] == value for name, value in asdict(sort).items()))

    goals = [
        goal("200 operations by 5 clients over one register, median", 1e3 * slowest(ONE_REGISTER), 50, " ms"),
        goal("1,000 operations over 10 keys, median", slowest(TEN_KEYS), 1, " s"),
        goal("the greatest memory of the whole run", peak() / 2**30, 1, " GiB"),
        goal("histories without an answer", sum(row["most"] == float("inf") for row in rows), 0, ""),
    ]
    save("linearizability", {"rows": rows, "goals": goals})
    sys.exit(not all(one["met"] for one in goals))


if __name__ == "__main__":
    main()
