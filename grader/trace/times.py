"""When things happened: recorded virtual times, or logical time where there are none; and how a time is told."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from grader.trace.events import Operation, Trace
from grader.trace.replay import Timed, replay

NANOSECONDS = 1e9
_REAL = (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0))
_MOST_ROUNDS = 100_000  # whole seconds beyond this are long runs, not rounds


def of(trace: Trace) -> Timed:
    """When each operation of `trace` happened: in virtual seconds where they were recorded, else in logical rounds."""
    return _from_record(trace) if recorded(trace) else replay(trace)


def recorded(trace: Trace) -> bool:
    """Whether the trace's own times can be shown: they are virtual, and known for everything that was done."""
    return trace.virtual and all(
        op.posted >= 0 and (op.ended >= 0 or not op.done) and (op.resumed >= 0 or op.waited < 0 or not op.done)
        for op in trace.all_operations()
    )


def _from_record(trace: Trace) -> Timed:
    timed = Timed(finish=[0.0] * trace.ranks)
    killed = {span.rank: span.since / NANOSECONDS for span in trace.spans if span.what == "killed"}
    last = [0.0] * trace.ranks
    for span in trace.spans:
        goes_on = span.what in ("slowed", "partitioned", "delayed")  # perhaps far beyond the run
        last[span.rank] = max(last[span.rank], (span.since if goes_on else span.until) / NANOSECONDS)
    for op in trace.all_operations():
        timed.posted[id(op)] = op.posted / NANOSECONDS
        if op.ended >= 0:
            timed.starts[id(op)] = (op.started if op.started >= 0 else op.posted) / NANOSECONDS
            timed.ends[id(op)] = op.ended / NANOSECONDS
        elif op.started >= 0:
            timed.starts[id(op)], timed.ends[id(op)] = op.started / NANOSECONDS, Timed.never
        last[op.rank] = max(last[op.rank], timed.posted[id(op)])
    for pair in trace.messages:  # a side that never waited for it need not know when it moved
        known = [op for op in pair if id(op) in timed.ends]
        for op in pair if len(known) == 1 else ():
            timed.starts.setdefault(id(op), timed.starts[id(known[0])])
            timed.ends.setdefault(id(op), timed.ends[id(known[0])])
    for rank, steps in enumerate(trace.steps):
        for step in steps:
            op = step.operation
            if step.what != "wait" or op.threaded:
                continue
            since = (op.waited if op.waited >= 0 else op.posted) / NANOSECONDS
            until = op.resumed / NANOSECONDS if op.done or op.failed else killed.get(rank, Timed.never)
            if op.done and op.resumed < 0:
                until = max(since, timed.ends[id(op)])
            if until > since:
                timed.waits.append((op, since, until))
            last[rank] = max(last[rank], since, until if until != Timed.never else 0.0)
    stuck = {op.rank for op, _, until in timed.waits if until == Timed.never}
    for rank in range(trace.ranks):
        known_end = trace.finish[rank] / NANOSECONDS if rank < len(trace.finish) else last[rank]
        timed.finish[rank] = killed.get(rank, Timed.never if rank in stuck else max(known_end, last[rank]))
    finite = [time for time in (*timed.ends.values(), *timed.finish, *last) if time != Timed.never]
    timed.makespan = max(finite, default=0.0)
    return timed


@dataclass(frozen=True)
class Unit:
    """What times are told in. `size` is one unit, in the unit of `Timed` (seconds, or rounds)."""

    name: str
    size: float

    @property
    def rounds(self) -> bool:
        return self.name == "round"

    def tell(self, time: float) -> str:
        """A moment: "round 3", "1.25 ms"."""
        if time == Timed.never:
            return "never"
        return f"round {number(time / self.size)}" if self.rounds else self._told(time)

    def lasted(self, time: float) -> str:
        """A length of time: "3 rounds", "1.25 ms"."""
        if time == Timed.never:
            return "forever"
        if self.rounds:
            return f"{number(time / self.size)} round{'' if time == self.size else 's'}"
        return self._told(time)

    def _told(self, time: float) -> str:
        """In the unit that suits this time, which may be another than the axis's."""
        name, size = _suiting(time) if 0 < time < self.size / 10 else (self.name, self.size)
        return f"{number(time / size)} {name}"

    def ticks(self, since: float, until: float, at_most: int) -> Iterator[tuple[float, str]]:
        """Round values from `since` to `until`, and what stands beside them."""
        length = (until - since) / self.size
        step = 10.0 ** math.floor(math.log10(max(length / max(at_most, 1), 1e-12)))
        step = next(step * many for many in (1, 2, 5, 10) if length / (step * many) <= max(at_most, 1))
        if self.rounds:
            step = max(1.0, float(round(step)))
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        first = math.ceil(since / self.size / step - 1e-9)
        for count in range(first, math.floor(until / self.size / step + 1e-9) + 1):
            yield count * step * self.size, f"{count * step:.{decimals}f}"


def _suiting(time: float) -> tuple[str, float]:
    return next((unit for unit in reversed(_REAL) if time >= unit[1]), _REAL[0])


def unit(trace: Trace, timed: Timed, name: str = "") -> Unit:
    """The unit in which the times of `trace` are read best; `name` (a unit's) overrides it."""
    if name == "round" or not (name or recorded(trace)):
        return Unit("round", 1.0)
    if name:
        return Unit(*next(unit for unit in _REAL if unit[0] == name.replace("us", "µs")))
    if timed.makespan <= _MOST_ROUNDS and _whole_seconds(trace):
        return Unit("round", 1.0)
    return Unit(*_suiting(timed.makespan / 2))  # so that 1.5 ms are 1500 µs, and 2 ms are 2 ms


def _whole_seconds(trace: Trace) -> bool:
    if any(span.of_pass for span in trace.spans):
        return False  # a model's passes take seconds, also where they are whole
    times = [time for op in trace.all_operations() for time in _times(op) if time >= 0]
    times += [time for span in trace.spans for time in (span.since, span.until)] + list(trace.finish)
    return all(time % 1_000_000_000 == 0 for time in times)


def _times(op: Operation) -> tuple[int, ...]:
    return op.posted, op.waited, op.resumed, op.started, op.ended


def number(value: float) -> str:
    """A number as a person would write it: at most four digits that matter, no exponent, no trailing zeros."""
    if value == 0:
        return "0"
    decimals = max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(decimals, 9)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
