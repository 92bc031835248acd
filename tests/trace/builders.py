"""Traces made by hand: `Script` for runs that are replayed, `Recording` for virtual times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grader.trace.events import COLLECTIVE_CODES, RECV, SEND, Operation, Span, Step, Trace


class Script:
    """Builds a trace without times: what each rank posts and waits for, in order."""

    def __init__(self, ranks: int) -> None:
        self.trace = Trace(ranks)

    def post(self, rank: int, kind: int, peer: int, size: int = 8, tag: int = 0, line: int = 7) -> Operation:
        op = Operation(rank, len(self.trace.operations(rank)), kind, peer, tag, size, line)
        self.trace.steps[rank].append(Step("post", op))
        return op

    def wait(self, op: Operation) -> None:
        op.done = True
        self.trace.steps[op.rank].append(Step("wait", op))

    def call(self, rank: int, kind: int, peer: int, size: int = 8) -> None:
        """A blocking send or recv."""
        self.wait(self.post(rank, kind, peer, size))

    def join(self, rank: int, name: str, size: int = 8, group: int = 0) -> None:
        """A blocking collective."""
        self.wait(self.post(rank, COLLECTIVE_CODES[name], -1, size, group))


class Recording:
    """Builds a trace in virtual time. Times are in units of `unit` nanoseconds; make calls in the order of time."""

    def __init__(self, ranks: int, unit: float = 1e3) -> None:
        self.trace, self.unit = Trace(ranks, virtual=True), unit
        self.last = [0] * ranks

    def at(self, time: float) -> int:
        return round(time * self.unit)

    def post(
        self, rank: int, kind: int, peer: int, posted: float, size: int = 8, tag: int = 0, line: int = 7
    ) -> Operation:
        op = Operation(rank, len(self.trace.operations(rank)), kind, peer, tag, size, line, posted=self.at(posted))
        self.trace.steps[rank].append(Step("post", op))
        self.last[rank] = max(self.last[rank], op.posted)
        return op

    def wait(self, op: Operation, waited: float, times: tuple[float, float] | None = None) -> None:
        """Wait for `op`, which began and ended at `times`; None: for ever."""
        op.waited = self.at(waited)
        if times is not None:
            op.started, op.ended = self.at(times[0]), self.at(times[1])
            op.resumed, op.done = max(op.ended, op.waited), True
            self.last[op.rank] = max(self.last[op.rank], op.resumed)
        self.trace.steps[op.rank].append(Step("wait", op))

    def message(
        self, source: int, target: int, posted: float, received: float, took: float, size: int = 8, starts: float = -1,
        waited: float = -1, tag: int = 0,
    ) -> float:  # fmt: skip
        """A message that both sides wait for at once (the sender at `waited`). Returns when it is there."""
        send = self.post(source, SEND, target, posted, size, tag)
        recv = self.post(target, RECV, source, received, size, tag)
        start = max(posted, received, starts)
        self.wait(recv, received, (start, start + took))
        self.wait(send, max(waited, posted), (start, start + took))
        return start + took

    def collective(
        self, name: str, joins: Mapping[int, float], took: float, size: int = 1024, group: int = 0,
        starts: float = -1,
    ) -> float:  # fmt: skip
        start = max(*joins.values(), starts)
        for rank, time in joins.items():
            self.wait(self.post(rank, COLLECTIVE_CODES[name], -1, time, size, group), time, (start, start + took))
        return start + took

    def never(self, rank: int, name: str, since: float, size: int = 1024, group: int = 0) -> None:
        """A collective that never ends."""
        self.wait(self.post(rank, COLLECTIVE_CODES[name], -1, since, size, group), since)

    def compute(self, rank: int, since: float, until: float, line: int = 5) -> float:
        self.span(rank, "compute", since, until, line=line)
        self.last[rank] = max(self.last[rank], self.at(until))
        return until

    def span(self, rank: int, what: str, since: float, until: float, peer: int = -1, line: int = 0) -> None:
        self.trace.spans.append(Span(rank, what, self.at(since), self.at(until), line, peer))

    def group(self, number: int, ranks: Sequence[int]) -> int:
        self.trace.groups[number] = tuple(ranks)
        return number

    def done(self) -> Trace:
        self.trace.finish = tuple(self.last)
        return self.trace
