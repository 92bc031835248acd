"""Whether the ranks of a simulated run get anywhere: what each does in a row without an operation, and what repeats."""

from __future__ import annotations

from collections.abc import Callable

from grader.ranks.endless import (
    LONGEST_SLEEP,
    MOST_ASKED,
    MOST_REPEATED,
    MOST_SLEPT,
    SLEPT_SECONDS,
    Endless,
    Repeats,
    Series,
)
from grader.ranks.sim.operations import Op
from grader.ranks.sim.scheduler import Scheduler

FREE_READS = 1_000  # of the clock in a row, which take no time; then each takes some, and each further so many twice it
TICK = 1e-6  # seconds


class Progress:
    """Of all ranks of one run. Raises Endless in a rank that goes on for ever, and tells of it."""

    def __init__(self, scheduler: Scheduler, line: Callable[[], int], tell: Callable[..., None]) -> None:
        self._scheduler, self._line, self._tell = scheduler, line, tell
        self._series = [Series(0, 0.0) for _ in scheduler.ranks]
        self._repeats = [Repeats() for _ in scheduler.ranks]

    def _now(self) -> Series:
        """What the running rank has done since its last operation."""
        rank = self._scheduler.current
        series = self._series[rank.number]
        if series.posted != rank.posted or rank.clock < series.since:
            series = self._series[rank.number] = Series(rank.posted, rank.clock)
        return series

    def asked(self, op: Op) -> bool:
        """The running rank asks whether an operation is over, and it is not. Returns whether it asks for ever; raises
        Endless where it does and the answer cannot change."""
        series = self._now()
        series.asked += 1
        if series.asked <= MOST_ASKED:
            return False
        if op.meeting is None:
            self._end("asked", series.asked, posted=op.line, peer=op.peer, kind=op.kind)
        series.asked = 0
        return True

    def sleeps(self, seconds: float) -> None:
        """The running rank is to sleep for so many virtual seconds."""
        series, rank = self._now(), self._scheduler.current
        series.slept += 1
        whole = rank.clock - series.since + seconds
        if whole > LONGEST_SLEEP or (series.slept > MOST_SLEPT and whole > SLEPT_SECONDS):
            self._end("slept", series.slept, seconds=whole)

    def reads_the_clock(self) -> None:
        """A rank that does nothing but look at the clock computes: that takes time."""
        series = self._now()
        series.reads += 1
        if series.reads > FREE_READS:
            self._scheduler.idle(TICK * 2.0 ** min(series.reads // FREE_READS, 30))

    def brought(self, op: Op, value: int) -> None:
        """The running rank sends, receives or brings to a collective data with this hash."""
        mine = self._repeats[op.rank]
        mine.brought((op.line, op.kind, op.peer), value)
        if mine.count <= MOST_REPEATED:
            return
        going = [rank.number for rank in self._scheduler.ranks if rank.state == "running"]
        if all(self._repeats[number].count > MOST_REPEATED // 2 for number in going):
            self._end("repeated", mine.count, posted=op.line, ranks=len(going))

    def _end(self, how: str, count: int, **more: float) -> None:
        rank = self._scheduler.current.number
        self._tell({"event": "endless", "rank": rank, "how": how, "line": self._line(), "count": count, **more})
        raise Endless(how)
