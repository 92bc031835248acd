"""Threads, the baton, virtual time and message matching. Knows nothing of torch.

Each rank is a thread; exactly one of them runs, the one that holds the baton. The next to run is the runnable rank with
the least virtual clock (ties by the seed), after every event that comes before it. A rank's clock moves only when it
waits or computes, so posts happen in the order of virtual time, and the same seed gives the same run.
Messages use the one-port model of `grader.ranks.network`.
"""

from __future__ import annotations

import _thread
import heapq
import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from grader.ranks.network import Network
from grader.sandbox import frames
from grader.trace.events import RECV, RECV_ANY, SEND

NANOSECONDS = 1e9
_pack = frames.EVENT.pack
STACK_BYTES = 2**20


class Ended(BaseException):
    """Raised in a rank that is to unwind, because the run is over."""


class Op:
    """A send, a receive, or one rank's part of a collective. Times are virtual seconds."""

    __slots__ = (
        "done",
        "end",
        "kind",
        "line",
        "memory",
        "number",
        "partner",
        "payload",
        "peer",
        "rank",
        "size",
        "tag",
        "target",
    )

    def __init__(self, rank: int, number: int, kind: int, peer: int, tag: Any, size: int, line: int) -> None:
        self.rank, self.number, self.kind, self.peer, self.tag = rank, number, kind, peer, tag
        self.size, self.line = size, line
        self.partner: Op | None = None
        self.payload: Any = None  # what a send carries; put into the receive when it is done
        self.target: Any = None  # the tensor it reads or fills
        self.memory = (0, 0)  # where that lies: addresses from, to
        self.end: float | None = None
        self.done = False


class Rank:
    """One simulated rank."""

    def __init__(self, number: int, tie: int) -> None:
        self.number, self.tie = number, tie
        self.clock = 0.0
        self.baton = _thread.allocate_lock()
        self.baton.acquire()
        self.blocked: Op | None = None
        self.state = "running"  # running, returned, raised
        self.outcome: Any = None
        self.posted = 0
        self.records = bytearray()
        self.thread = 0
        self.data: dict[str, Any] = {}  # what the caller keeps for it
        self.bytes_sent = self.messages_sent = 0


class Scheduler:
    """Runs a function on every rank until all have returned, raised, or are stuck for ever."""

    def __init__(self, ranks: int, network: Network, seed: int, trace: bool = True) -> None:
        order = list(range(ranks))
        random.Random(seed).shuffle(order)
        self.ranks = [Rank(number, tie) for number, tie in enumerate(order)]
        self.network, self.tracing = network, trace
        self.current = self.ranks[0]
        self.on_switch: Callable[[Rank, Rank], None] | None = None
        self._ready: list[tuple[float, int, int]] = []
        self._events: list[tuple[float, int, Op]] = []
        self._sequence = 0
        self._sends: dict[tuple[int, int, Any], deque[Op]] = {}
        self._receives: dict[tuple[int, int, Any], deque[Op]] = {}
        self._out_busy = [False] * ranks
        self._in_busy = [False] * ranks
        self._queued: list[Op] = []
        self._finished = _thread.allocate_lock()
        self._ending = False
        self._body: Callable[[Rank], Any] | None = None

    # ---- running

    def run(self, body: Callable[[Rank], Any]) -> None:
        """Call `body(rank)` on every rank's thread, until each has returned or raised, or is blocked for ever.

        May be called again as long as every rank has returned; each rank keeps its thread.
        """
        self._finished.acquire()
        for queues in (self._sends, self._receives):
            queues.clear()  # what nobody received in an earlier call is not received in this one
        self._queued.clear()
        self._events.clear()
        self._out_busy = [False] * len(self.ranks)
        self._in_busy = [False] * len(self.ranks)
        fresh, self._body = self._body is None, body
        for rank in self.ranks:
            rank.clock, rank.blocked, rank.state, rank.outcome, rank.posted = 0.0, None, "running", None, 0
            rank.bytes_sent = rank.messages_sent = 0
            rank.records.clear()
            heapq.heappush(self._ready, (0.0, rank.tie, rank.number))
        if fresh:
            before = threading.stack_size(STACK_BYTES)
            for rank in self.ranks:
                _thread.start_new_thread(self._thread, (rank,))
            threading.stack_size(before)
        self._hand_over(self._pick())
        self._finished.acquire()
        self._finished.release()

    def _thread(self, rank: Rank) -> None:
        rank.thread = threading.get_ident()
        while True:
            rank.baton.acquire()
            if self._ending:
                return
            assert self._body is not None
            try:
                rank.outcome = self._body(rank)
                rank.state = "returned"
            except Ended:
                return
            except BaseException as error:
                rank.outcome, rank.state = error, "raised"
            self._hand_over(self._pick())

    def _hand_over(self, rank: Rank | None) -> None:
        if rank is None:
            self._finished.release()
            return
        if self.on_switch is not None:
            self.on_switch(self.current, rank)
        self.current = rank
        rank.baton.release()

    def _pick(self) -> Rank | None:
        """The next rank to run, after the events before it; None if there is none."""
        while True:
            if self._events and (not self._ready or self._events[0][0] <= self._ready[0][0]):
                time, _, op = heapq.heappop(self._events)
                self._complete(op, time)
            elif self._ready:
                return self.ranks[heapq.heappop(self._ready)[2]]
            else:
                return None

    def _give_way(self, rank: Rank) -> None:
        """Let others run, and come back when it is `rank`'s turn again."""
        following = self._pick()
        if following is rank:
            return
        self._hand_over(following)
        rank.baton.acquire()
        if self._ending:
            raise Ended

    def compute(self, seconds: float) -> None:
        """The running rank computes for so long."""
        rank = self.current
        rank.clock += seconds
        heapq.heappush(self._ready, (rank.clock, rank.tie, rank.number))
        self._give_way(rank)

    def unwind(self) -> None:
        """End every rank's thread; one that is stuck in the learner's code unwinds from there."""
        self._ending = True
        for rank in self.ranks:
            rank.baton.release()

    # ---- operations

    def record(self, what: int, op: Op, line: int) -> None:
        if self.tracing:
            rank = self.ranks[op.rank]
            tag = op.tag if type(op.tag) is int else op.tag[1]
            at = int(rank.clock * NANOSECONDS)
            rank.records += _pack(what, op.kind, 0, line, op.peer, tag, op.number, op.size, at)

    def post(self, kind: int, peer: int, tag: Any, size: int, line: int) -> Op:
        """The running rank posts a send or a receive."""
        rank = self.current
        op = Op(rank.number, rank.posted, kind, peer, tag, size, line)
        rank.posted += 1
        self.record(frames.POST, op, line)
        return op

    def match(self, op: Op) -> None:
        """Look for the other side of a posted send or receive; the first posted is the first matched."""
        if op.kind == SEND:
            rank = self.ranks[op.rank]
            rank.bytes_sent += op.size
            rank.messages_sent += 1
            other = self._take(self._receives, op.rank, op.peer, op.tag) or self._take(
                self._receives, -1, op.peer, op.tag
            )
            if other is None:
                self._sends.setdefault((op.rank, op.peer, op.tag), deque()).append(op)
                return
            self._meet(op, other)
        elif op.kind == RECV:
            other = self._take(self._sends, op.peer, op.rank, op.tag)
            if other is None:
                self._receives.setdefault((op.peer, op.rank, op.tag), deque()).append(op)
                return
            self._meet(other, op)
        else:
            waiting = [q[0] for (src, dst, tag), q in self._sends.items() if q and dst == op.rank and tag == op.tag]
            if not waiting:
                self._receives.setdefault((-1, op.rank, op.tag), deque()).append(op)
                return
            first = min(waiting, key=lambda send: (send.end or 0.0, self.ranks[send.rank].tie))
            self._sends[first.rank, op.rank, op.tag].popleft()
            self._meet(first, op)

    @staticmethod
    def _take(queues: dict[tuple[int, int, Any], deque[Op]], source: int, target: int, tag: Any) -> Op | None:
        queue = queues.get((source, target, tag))
        return queue.popleft() if queue else None

    def _meet(self, send: Op, receive: Op) -> None:
        send.partner, receive.partner = receive, send
        receive.peer = send.rank
        if self._out_busy[send.rank] or self._in_busy[receive.rank]:
            self._queued.append(send)
        else:
            self._begin(send, self.current.clock)

    def _start(self, now: float) -> None:
        """Start every message that has met its receive and whose ports are free."""
        if not self._queued:
            return
        waiting = []
        for send in self._queued:
            if self._out_busy[send.rank] or self._in_busy[send.peer]:
                waiting.append(send)
                continue
            self._begin(send, now)
        self._queued = waiting

    def _begin(self, send: Op, now: float) -> None:
        self._out_busy[send.rank] = self._in_busy[send.peer] = True
        self._sequence += 1
        heapq.heappush(self._events, (now + self.network.cost(send.rank, send.peer, send.size), self._sequence, send))

    def at(self, time: float, op: Op) -> None:
        """Complete `op` at a virtual time."""
        self._sequence += 1
        heapq.heappush(self._events, (time, self._sequence, op))

    def _complete(self, op: Op, time: float) -> None:
        receive = op.partner
        if op.kind == SEND and receive is not None:
            self._out_busy[op.rank] = self._in_busy[receive.rank] = False
            self._wake(receive, time)
        self._wake(op, time)
        if self._queued:
            self._start(time)

    def _wake(self, op: Op, time: float) -> None:
        op.end = time
        rank = self.ranks[op.rank]
        if rank.blocked is op:
            rank.blocked = None
            rank.clock = max(rank.clock, time)
            heapq.heappush(self._ready, (rank.clock, rank.tie, rank.number))

    def wait(self, op: Op, line: int) -> None:
        """The running rank waits for an operation of its own."""
        rank = self.current
        self.record(frames.WAIT, op, line)
        if op.end is None or op.end > rank.clock:
            rank.blocked = op
            self._give_way(rank)
        op.done = True
        self.record(frames.DONE, op, 0)


__all__ = ["RECV", "RECV_ANY", "SEND", "Ended", "Op", "Rank", "Scheduler"]
