"""The baton and virtual time: which rank runs next, and when.

Exactly one rank runs, the one that holds the baton (see `sim.turns`). The next to run is the runnable rank with the
least virtual clock (ties by the seed), after every event that comes before it. A rank's clock moves only when it
waits or computes, so ranks act in the order of virtual time, and the same seed gives the same run.
"""

from __future__ import annotations

import heapq
import random
import threading
from collections.abc import Callable
from typing import Any

from grader.ranks.sim.operations import TIMER, Ended, Killed, Op, Rank
from grader.ranks.sim.turns import Threads, Turns


class Baton:
    """Runs a function on every rank until all have returned, raised, or are stuck for ever.

    What happens at an event, and at a time when nothing else does, is the subclass's: `_complete` and `_start`.
    """

    def __init__(self, ranks: int, seed: int, turns: Turns | None = None) -> None:
        order = list(range(ranks))
        random.Random(seed).shuffle(order)
        self.ranks = [Rank(number, tie) for number, tie in enumerate(order)]
        self.current = self.ranks[0]
        self.on_switch: Callable[[Rank, Rank], None] | None = None
        self._ready: list[tuple[float, int, int]] = []
        self._events: list[tuple[float, int, Op]] = []
        self._sequence = 0
        self._to_start: float | None = None  # the time at which messages are to be started, after all else
        self._turns = turns or Threads()
        self._ending = False
        self._body: Callable[[Rank], Any] | None = None

    def _begin(self, fresh: bool) -> None:
        """A new call of `run` begins; it is the first if `fresh`."""
        raise NotImplementedError

    def _complete(self, op: Op, time: float) -> None:
        """An event: `op` is over."""
        raise NotImplementedError

    def _start(self, now: float) -> None:
        """Everything else at this time has happened."""
        raise NotImplementedError

    def run(self, body: Callable[[Rank], Any]) -> None:
        """Call `body(rank)` on every rank, until each has returned or raised, or is blocked for ever.

        May be called again as long as every rank has returned; each rank keeps its thread.
        """
        self._events.clear()
        self._to_start = None
        fresh, self._body = self._body is None, body
        for rank in self.ranks:
            rank.begin()
            self._make_ready(rank)
        self._begin(fresh)
        if fresh:
            self._turns.begin(self.ranks, self._live)
        self._hand_over(None, self._pick())

    def unwind(self) -> None:
        """End every rank; one that is stuck in the learner's code unwinds from there."""
        self._ending = True
        self._turns.end(self.ranks)

    def _live(self, rank: Rank) -> None:
        rank.thread = threading.get_ident()
        while not self._ending:
            assert self._body is not None
            try:
                if rank.state == "killed":
                    raise Killed
                rank.outcome = self._body(rank)
                if rank.state == "running":
                    rank.state = "returned"
            except Ended:
                return
            except Killed:
                rank.state = "killed"
            except BaseException as error:
                if rank.state != "killed":
                    rank.outcome, rank.state = error, "raised"
            self._hand_over(rank, self._pick())

    def _hand_over(self, before: Rank | None, after: Rank | None) -> None:
        """It is `after`'s turn, or, if that is None, all is over; until it is again `before`'s."""
        if after is not None:
            if self.on_switch is not None:
                self.on_switch(self.current, after)
            self.current = after
        self._turns.switch(before, after)

    def _pick(self) -> Rank | None:
        """The next rank to run, after the events before it; None if there is none.

        Messages start when all that happens at that time has happened, so that it does not matter in which order ranks
        ran at it.
        """
        events, ready = self._events, self._ready
        while True:
            now = self._to_start
            if now is not None and not (ready and ready[0][0] <= now) and not (events and events[0][0] <= now):
                self._start(now)
            if events and (not ready or events[0][0] <= ready[0][0]):
                time, _, op = heapq.heappop(events)
                self._complete(op, time)
            elif ready:
                rank = self.ranks[heapq.heappop(ready)[2]]
                if rank.state == "running":
                    return rank
                if rank.state == "killed" and not rank.unwound:  # it runs once more, to unwind
                    rank.unwound = True
                    return rank
            else:
                return None

    def _give_way(self, rank: Rank) -> None:
        """Let others run, and come back when it is `rank`'s turn again."""
        following = self._pick()
        if following is not rank:
            self._hand_over(rank, following)
            if self._ending:
                raise Ended
        if rank.state == "killed":
            raise Killed

    def poll(self) -> None:
        """The running rank looks again when the next thing has happened."""
        rank = self.current
        if not self._events and not self._ready and self._to_start is not None:
            self._start(self._to_start)
        queue = self._events or self._ready
        if queue:  # after all that run at that time: others may look as well
            rank.clock = max(rank.clock, queue[0][0])
            heapq.heappush(self._ready, (rank.clock, len(self.ranks) + rank.tie, rank.number))
            self._give_way(rank)

    def _make_ready(self, rank: Rank) -> None:
        """A rank is to run again at its clock."""
        heapq.heappush(self._ready, (rank.clock, rank.tie, rank.number))

    def _call_at(self, time: float, what: Callable[[float], None] | None) -> None:
        """Call `what(time)` at a virtual time; None only has everything looked at again."""
        timer = Op(0, 0, TIMER, -1, 0, 0, 0)
        timer.payload = what
        self._at(time, timer)

    def _at(self, time: float, op: Op) -> None:
        """Complete `op` at a virtual time."""
        self._sequence += 1
        heapq.heappush(self._events, (time, self._sequence, op))
