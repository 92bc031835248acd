"""Operations in words: for sentences, tables and pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grader.nodes.histories.history import NEVER, Key, Operation, called
from grader.trace.story import Fault

_LONGEST = 40
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@dataclass(frozen=True)
class Clock:
    """How times of one history are written: in one unit, with as many digits as tell its operations apart."""

    size: float
    unit: str
    digits: int

    @classmethod
    def of(cls, operations: Sequence[Operation]) -> Clock:
        times = [time for one in operations for time in (one.start, one.end) if time != NEVER]
        latest = max(times, default=0.0)
        size, unit = next((pair for pair in _UNITS if latest >= pair[0]), _UNITS[0])
        lengths = sorted(one.end - one.start for one in operations if one.start < one.end < NEVER)
        if not lengths or all(time == round(time) for time in times):
            return cls(size, unit, 0 if size == 1 else 3)
        typical = lengths[len(lengths) // 4] / size
        return cls(size, unit, min(max(math.ceil(0.6 - math.log10(typical)), 0), 6))

    def number(self, time: float) -> str:
        return f"{time / self.size:.{self.digits}f}"

    def at(self, time: float) -> str:
        """ "1.20 s" """
        return f"{self.number(time)} {self.unit}"

    def span(self, operation: Operation) -> str:
        """ "at 1.20-1.31 s", "from 1.20 s on" """
        if operation.end == NEVER:
            return f"from {self.at(operation.start)} on"
        return f"at {self.number(operation.start)}-{self.at(operation.end)}"


def shown(value: Any, longest: int = _LONGEST) -> str:
    """A JSON value, short and printable; of a long text both ends."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = "".join(c if c.isprintable() else "?" for c in text)
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def name(key: Key) -> str:
    """What sentences call the place that is read and written."""
    return "the register" if key is None else shown(key).strip('"')


def done(operation: Operation) -> str:
    """What was asked: "write of 2", "cas from 1 to 2"."""
    if operation.f == "cas":
        return f"cas from {shown(operation.value[0])} to {shown(operation.value[1])}"
    return "read" if operation.f == "read" else f"{operation.f} of {shown(operation.value)}"


def short(operation: Operation, longest: int = 14) -> str:
    """What was asked and came back, for a bar in a picture: "r → 1", "w 2", "cas 1→2", "+ "a" "."""
    if operation.f == "read":
        return f"r → {shown(operation.result, longest)}" if operation.status == "ok" else "r"
    if operation.f == "cas":
        return f"cas {shown(operation.value[0], longest)}→{shown(operation.value[1], longest)}"
    return f"{'w' if operation.f == 'write' else '+'} {shown(operation.value, longest)}"


def outcome(operation: Operation) -> str:
    """How it ended: "ok", "returned 1", "saw another value", "failed", "outcome unknown"."""
    if operation.status == "ok":
        return f"returned {shown(operation.result)}" if operation.f == "read" else "ok"
    return {"fail": "failed", "unseen": "saw another value", "info": "outcome unknown"}[operation.status]


def of_fault(fault: Fault) -> str:
    """ "pause n1, n2", "partition n1 n2, n3" """
    parts = fault.nodes if len(fault.groups) == 1 else [" ".join(group) for group in fault.groups]
    return f"{fault.label} {', '.join(parts)}".strip()


def whole(operation: Operation, clock: Clock) -> str:
    """ "write of 2 by c1 at 1.00-1.10 s"; of a read and of a cas that was refused also how it ended."""
    told = (operation.f == "read" and operation.status == "ok") or operation.status == "unseen"
    return timed(operation, clock) + (f" ({outcome(operation)})" if told else "")


def timed(operation: Operation, clock: Clock) -> str:
    """ "read by c1 at 1.00-1.10 s" """
    return f"{by(operation)} {clock.span(operation)}"


def by(operation: Operation) -> str:
    """ "write of 2 by c1" """
    return f"{done(operation)} by {called(operation.process)}"
