"""What of a history is shown: all of it where it is small, else the part around its violation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grader.nodes.histories.checker import Checked
from grader.nodes.histories.history import NEVER, Operation
from grader.nodes.histories.words import name
from grader.trace.story import Fault

DRAWN = 240  # operations in one picture
_BEFORE, _AFTER = 100, 12  # around a violation, where there are more
LISTED = 14  # operations in a table


@dataclass(frozen=True)
class View:
    """What is drawn, in the order of calls; `note` says what is left out, "" for nothing."""

    drawn: tuple[Operation, ...]
    faults: tuple[Fault, ...]
    note: str

    @classmethod
    def of(cls, checked: Checked, operations: Sequence[Operation], faults: Sequence[Fault] = ()) -> View:
        shown, note = list(operations), ""
        if checked.stuck is not None and checked.consistency == "linearizable":
            shown = [one for one in shown if one.key == checked.key]
            if len(shown) < len(operations):
                note = f"Only operations on {name(checked.key)} are drawn. Operations on other keys do not matter here."
        if len(shown) > DRAWN:
            count = len(shown)
            shown = around(checked, shown, _BEFORE, _AFTER)
            where = "around the violation" if checked.stuck is not None else "at the beginning"
            note = f"{len(shown)} of {count:,} operations are drawn, {where}. {note}".strip()
        times = [time for one in shown for time in (one.start, one.end) if time != NEVER]
        since, until = min(times, default=0.0), max(times, default=0.0)
        seen = sorted((one for one in faults if one.since <= until and one.until >= since), key=lambda one: one.since)
        return cls(tuple(shown), tuple(seen), note)


def around(checked: Checked, operations: Sequence[Operation], before: int, after: int) -> list[Operation]:
    """Some operations before and after the call of the one that cannot be placed, and all that contradict it; without
    one, the first ones. In the order of calls."""
    stuck = checked.stuck
    if stuck is None:
        return list(operations[: before + after])
    earlier = sorted((one for one in operations if one.called <= stuck.called), key=lambda one: one.called)
    later = [one for one in operations if one.called > stuck.called and one.start <= stuck.end]
    chosen = {id(one): one for one in (*earlier[-before:], *later[:after], *checked.pair)}
    return sorted(chosen.values(), key=lambda one: one.called)


def rows(checked: Checked, operations: Sequence[Operation]) -> list[Operation]:
    """The operations that a table shows of a history that is not valid, in the order of calls."""
    same = [one for one in operations if one.key == checked.key or checked.consistency == "sequential"]
    same = [one for one in same if one.called <= (checked.stuck.returned if checked.stuck else math.inf)]
    pair = len(checked.pair)
    return around(checked, same, max(LISTED - pair, 4), 4)
