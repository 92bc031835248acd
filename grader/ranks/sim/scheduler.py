"""Threads, the baton, virtual time and message matching. Knows nothing of torch.

Each rank is a thread; exactly one of them runs, the one that holds the baton. The next to run is the runnable rank with
the least virtual clock (ties by the seed), after every event that comes before it. A rank's clock moves only when it
waits or computes, so posts happen in the order of virtual time, and the same seed gives the same run.
What a message or a collective costs is `grader.ranks.network`'s; what goes wrong by order is `sim.mishaps`'.
"""

from __future__ import annotations

import _thread
import functools
import heapq
import math
import operator
import random
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from grader.ranks.network import Network
from grader.ranks.sim.mishaps import Mishaps
from grader.ranks.sim.operations import TIMER, Ended, Group, Killed, Meeting, Op, PeerGone, Rank
from grader.sandbox import frames
from grader.sandbox.host import TRACE_SIGNAL
from grader.trace.events import GROUP_BITS, RECV, RECV_ANY, SEND, SPANS

NANOSECONDS = 1e9
_pack = frames.EVENT.pack
STACK_BYTES = 2**20
LONGEST = 1e8  # seconds: virtual times are kept as nanoseconds in 64 bits
COMPUTE, KILLED, DELAYED, DROPPED = (SPANS.index(name) for name in ("compute", "killed", "delayed", "dropped"))


_by_posting = operator.attrgetter("posted", "rank", "number")


class Scheduler:
    """Runs a function on every rank until all have returned, raised, or are stuck for ever."""

    def __init__(
        self, ranks: int, network: Network, seed: int, trace: bool = True, mishaps: Mishaps | None = None
    ) -> None:
        order = list(range(ranks))
        random.Random(seed).shuffle(order)
        self.ranks = [Rank(number, tie) for number, tie in enumerate(order)]
        self.network, self.tracing, self.mishaps = network, trace, mishaps
        self.groups: list[Group] = []
        self._uplinks = -(-ranks // network.ranks_per_node) if network.ranks_per_node else 0
        self.current = self.ranks[0]
        self.on_switch: Callable[[Rank, Rank], None] | None = None
        self._ready: list[tuple[float, int, int]] = []
        self._events: list[tuple[float, int, Op]] = []
        self._sequence = 0
        self._sends: dict[tuple[int, int, int], deque[Op]] = {}
        self._receives: dict[tuple[int, int, int], deque[Op]] = {}
        self._busy: set[int] = set()  # ports: 2r of rank r outgoing, 2r + 1 incoming, then those of the nodes
        self._queued: list[Op] = []  # messages that are ready to go, once their ports are free
        self._to_start: float | None = None  # the time at which to look at them again
        self._collectives_over = [0.0] * ranks
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
        self._to_start = None
        self._events.clear()
        self._busy.clear()
        self._collectives_over = [0.0] * len(self.ranks)
        for group in self.groups:  # nor does a collective that some joined in it go on
            group.joined = dict.fromkeys(group.ranks, 0)
            group.meetings.clear()
        fresh, self._body = self._body is None, body
        for rank in self.ranks:
            rank.clock, rank.blocked, rank.state, rank.outcome, rank.posted = 0.0, None, "running", None, 0
            rank.bytes_sent = rank.messages_sent = 0
            rank.records.clear()
            rank.mourned.clear()
            rank.unwound = False
            heapq.heappush(self._ready, (0.0, rank.tie, rank.number))
        if self.mishaps is not None and not fresh:  # what befalls ranks befalls their calls, not their loading
            self._set_kills(self.mishaps)
        if fresh:
            before = threading.stack_size(STACK_BYTES)
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {TRACE_SIGNAL})  # which the main thread is to get
            for rank in self.ranks:
                _thread.start_new_thread(self._thread, (rank,))
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
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
        """The next rank to run, after the events before it; None if there is none.

        Messages start when all that happens at that time has happened, so that it does not matter in which order ranks
        ran at it: what was posted first goes first.
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
            self._hand_over(following)
            rank.baton.acquire()
            if self._ending:
                raise Ended
        if rank.state == "killed":
            raise Killed

    def compute(self, seconds: float, line: int = 0) -> None:
        """The running rank computes for so long. Raises ValueError for what is no time."""
        rank = self.current
        if not 0 <= seconds <= LONGEST:
            raise ValueError(f"a rank computes or sleeps for 0 to {LONGEST:g} seconds, not {seconds}")
        if self.mishaps is not None:
            seconds *= self.mishaps.slowness(rank.number)
        since, rank.clock = rank.clock, rank.clock + seconds
        self.span(COMPUTE, rank, since, rank.clock, line)
        heapq.heappush(self._ready, (rank.clock, rank.tie, rank.number))
        self._give_way(rank)

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

    def unwind(self) -> None:
        """End every rank's thread; one that is stuck in the learner's code unwinds from there."""
        self._ending = True
        for rank in self.ranks:
            rank.baton.release()

    # ---- operations

    def record(self, what: int, op: Op, line: int) -> None:
        if self.tracing:
            rank = self.ranks[op.rank]
            at = int(rank.clock * NANOSECONDS)
            rank.records += _pack(what, op.kind, op.info, line, op.peer, op.tag, op.number, op.size, at)

    def _record_done(self, rank: Rank, op: Op) -> None:
        if self.tracing:
            assert op.end is not None
            start, end = int((op.end if op.start is None else op.start) * NANOSECONDS), int(op.end * NANOSECONDS)
            at = int(rank.clock * NANOSECONDS)
            rank.records += _pack(frames.DONE, op.kind, 0, 0, op.peer, start, op.number, end, at)

    def span(self, code: int, rank: Rank, since: float, until: float, line: int = 0, peer: int = -1) -> None:
        """Note a stretch of a rank's time that is no operation (see `grader.trace.events.SPANS`)."""
        if self.tracing:
            ends = int(min(until, 2**33) * NANOSECONDS)
            rank.records += _pack(frames.SPAN, code, 0, line, peer, 0, 0, ends, int(since * NANOSECONDS))

    def post(self, kind: int, peer: int, tag: int, size: int, line: int, info: int = 0) -> Op:
        """The running rank posts an operation."""
        rank = self.current
        if rank.state == "killed":
            raise Killed
        if self.mishaps is not None and self.mishaps.dies_at_operation(rank.number, rank.posted + 1):
            self._kill(rank, rank.clock, unwinds=True)
            raise Killed
        op = Op(rank.number, rank.posted, kind, peer, tag, size, line)
        op.info, op.posted = info, rank.clock
        rank.posted += 1
        if self.tracing:
            self.record(frames.POST, op, line)
        return op

    def match(self, op: Op) -> None:
        """Look for the other side of a posted send or receive; the first posted is the first matched."""
        if op.kind == SEND:
            rank = self.ranks[op.rank]
            rank.bytes_sent += op.size
            rank.messages_sent += 1
            if self.mishaps is not None and self._befalls(op, self.mishaps):
                return
            key = op.rank, op.peer, op.tag
            queue = self._receives.get(key)
            other = queue.popleft() if queue else self._take(self._receives, -1, op.peer, op.tag)
            if other is None:
                if key in self._sends:
                    self._sends[key].append(op)
                else:
                    self._sends[key] = deque((op,))
                if op.size <= self.network.eager_bytes:
                    self._queue(op)
                return
            self._meet(op, other)
        elif op.kind == RECV:
            key = op.peer, op.rank, op.tag
            queue = self._sends.get(key)
            if queue:
                self._meet(queue.popleft(), op)
            elif key in self._receives:
                self._receives[key].append(op)
            else:
                self._receives[key] = deque((op,))
        else:
            waiting = [q[0] for (src, dst, tag), q in self._sends.items() if q and dst == op.rank and tag == op.tag]
            if not waiting:
                self._receives.setdefault((-1, op.rank, op.tag), deque()).append(op)
                return
            first = min(waiting, key=lambda send: (send.end or 0.0, self.ranks[send.rank].tie))
            self._sends[first.rank, op.rank, op.tag].popleft()
            self._meet(first, op)

    @staticmethod
    def _take(queues: dict[tuple[int, int, int], deque[Op]], source: int, target: int, tag: int) -> Op | None:
        queue = queues.get((source, target, tag))
        return queue.popleft() if queue else None

    def _meet(self, send: Op, receive: Op) -> None:
        send.partner, receive.partner = receive, send
        receive.peer = send.rank
        if send.start is None:
            self._queued.append(send)
            if self._to_start is None:
                self._to_start = self.current.clock
        else:  # sent without waiting for this receive
            receive.start = send.start
            if send.end is not None:
                self._at(self.current.clock, receive)

    def _queue(self, send: Op) -> None:
        """A message is ready to go."""
        self._queued.append(send)
        if self._to_start is None:
            self._to_start = self.current.clock

    def _start(self, now: float) -> None:
        """Start every message that is ready to go and whose ports are free."""
        self._to_start = None
        self._queued.sort(key=_by_posting)
        if self._uplinks or self.mishaps is not None:
            self._queued = [send for send in self._queued if not self._begin(send, now)]
            return
        busy, events, later = self._busy, self._events, []
        alpha, beta, sequence = self.network.alpha, self.network.beta, self._sequence
        for send in self._queued:  # as _begin does, where nothing is shared and nothing goes wrong
            out, into = 2 * send.rank, 2 * send.peer + 1
            if out in busy or into in busy:
                later.append(send)
                continue
            busy.add(out)
            busy.add(into)
            send.start = now
            if send.partner is not None:
                send.partner.start = now
            sequence += 1
            heapq.heappush(events, (now + (alpha + send.size * beta), sequence, send))
        self._queued, self._sequence = later, sequence

    def _begin(self, send: Op, now: float) -> bool:
        """Let a message move from now on, if its ports are free."""
        source, target, busy = send.rank, send.peer, self._busy
        out, into = 2 * source, 2 * target + 1
        if out in busy or into in busy:
            return False
        if self._uplinks and self.network.crosses(source, target):
            base, node = 2 * len(self.ranks), self.network.node
            up, down = base + 2 * node(source), base + 2 * node(target) + 1
            if up in busy or down in busy:
                return False
            busy.update((up, down))
        cost = self.network.cost(source, target, send.size)
        if self.mishaps is not None:
            until = self.mishaps.cut_until((source, target), now)
            if until > now:
                self._when_healed(until)
                return False
            cost *= self.mishaps.slowness(source, target)
        busy.add(out)
        busy.add(into)
        send.start = now
        if send.partner is not None:
            send.partner.start = now
        self._at(now + cost, send)
        return True

    def _when_healed(self, until: float) -> None:
        if until != math.inf:
            self._call_at(until, None)  # what waits is tried again after any event

    def _call_at(self, time: float, what: Callable[[float], None] | None) -> None:
        timer = Op(0, 0, TIMER, -1, 0, 0, 0)
        timer.payload = what
        self._at(time, timer)

    def _at(self, time: float, op: Op) -> None:
        """Complete `op` at a virtual time."""
        self._sequence += 1
        heapq.heappush(self._events, (time, self._sequence, op))

    def _complete(self, op: Op, time: float) -> None:
        if op.kind == SEND:
            if op.start is not None:
                self._busy.discard(2 * op.rank)
                self._busy.discard(2 * op.peer + 1)
                if self._uplinks:
                    self._free_uplinks(op.rank, op.peer)
            receive, late = op.partner, op.late
            if receive is not None and late:
                self._at(time + late, receive)
            elif receive is not None:
                self._wake(receive, time)
            self._wake(op, time)
        elif op.kind == TIMER:
            if op.payload is not None:
                op.payload(time)
        else:
            self._wake(op, time)
        if self._queued and self._to_start is None:
            self._to_start = time

    def _free_uplinks(self, source: int, target: int) -> None:
        if self.network.crosses(source, target):
            base, node = 2 * len(self.ranks), self.network.node
            self._busy.difference_update((base + 2 * node(source), base + 2 * node(target) + 1))

    def _wake(self, op: Op, time: float) -> None:
        op.end = time
        rank = self.ranks[op.rank]
        if rank.blocked is op:
            rank.blocked = None
            if time > rank.clock:
                rank.clock = time
            heapq.heappush(self._ready, (rank.clock, rank.tie, rank.number))

    def wait(self, op: Op, line: int) -> None:
        """The running rank waits for an operation of its own. Raises PeerGone if it can only wait for a killed one."""
        rank = self.current
        if self.tracing:
            self.record(frames.WAIT, op, line)
        if op.end is None or op.end > rank.clock:
            if self.mishaps is None or not self._hopeless(op, self.mishaps):
                rank.blocked = op
                self._give_way(rank)
            if op.end is None:
                assert self.mishaps is not None
                self.record(frames.FAILED, op, 0)
                raise PeerGone(f"Connection closed by peer: rank {self._mourn(op, self.mishaps)} is gone")
        op.done = True
        if self.tracing:
            self._record_done(rank, op)

    # ---- collectives

    def group(self, ranks: Sequence[int]) -> Group:
        """A new group of ranks, in the group's order."""
        self.groups.append(Group(len(self.groups), ranks))
        return self.groups[-1]

    def join(self, group: Group, kind: int, name: str, root: int, size: int, line: int, info: int, agree: Any) -> Op:
        """The running rank joins its next collective in `group`; `agree` is what all that join it must have alike.

        It begins when all have joined and none is in an earlier one, and is over for all at once. Where they do not
        agree, it never begins.
        """
        op = self.post(kind, root, group.number, size, line, info)
        index = group.joined[op.rank]
        group.joined[op.rank] = index + 1
        meeting = group.meetings.setdefault(index, Meeting(group, (kind, agree)))
        meeting.ops[op.rank] = op
        meeting.agreed = meeting.agreed and meeting.signature == (kind, agree)
        op.meeting = meeting
        if len(meeting.ops) == len(group.ranks):
            del group.meetings[index]
            if meeting.agreed:
                self._assemble(meeting, op, name)
        return op

    def _assemble(self, meeting: Meeting, last: Op, name: str) -> None:
        ranks = meeting.group.ranks
        begin = max(self.current.clock, *(self._collectives_over[rank] for rank in ranks))
        cost = self.network.collective_cost(name, last.size, ranks)
        if self.mishaps is not None:
            begin = self.mishaps.cut_until(ranks, begin)
            cost *= self.mishaps.slowest(ranks)
        if begin == math.inf:
            return
        for part in meeting.ops.values():
            part.start = begin
            self._collectives_over[part.rank] = begin + cost
        self._call_at(begin + cost, functools.partial(self._conclude, list(meeting.ops.values())))

    def _conclude(self, parts: list[Op], time: float) -> None:
        for part in parts:
            self._wake(part, time)

    # ---- faults

    def _set_kills(self, mishaps: Mishaps) -> None:
        mishaps.begin()
        for fault in mishaps.kills.values():
            if not fault.op:
                self._call_at(fault.since, functools.partial(self._kill, self.ranks[fault.rank]))

    def _kill(self, rank: Rank, time: float, unwinds: bool = False) -> None:
        """A rank is gone. Those that wait for it see so, unless the fault is silent.

        Unless it `unwinds` by itself, being the one that runs, it gets the baton once more to do so.
        """
        if rank.state != "running" or self.mishaps is None:
            return
        rank.state, rank.blocked, rank.clock = "killed", None, time
        self.span(KILLED, rank, time, time)
        if not unwinds:
            heapq.heappush(self._ready, (time, rank.tie, rank.number))
        for queues in (self._sends, self._receives):
            for queue in queues.values():
                for op in [op for op in queue if op.rank == rank.number and op.start is None]:
                    queue.remove(op)
        if self.mishaps.kills[rank.number].silent:
            return
        self.mishaps.gone.add(rank.number)
        for other in self.ranks:
            if other.blocked is not None and self._hopeless(other.blocked, self.mishaps):
                other.blocked, other.clock = None, max(other.clock, time)
                heapq.heappush(self._ready, (other.clock, other.tie, other.number))

    def _hopeless(self, op: Op, mishaps: Mishaps) -> bool:
        """Whether what `op` waits for could only come from a rank that is gone."""
        if op.meeting is not None:
            return any(rank in mishaps.gone and rank not in op.meeting.ops for rank in op.meeting.group.ranks)
        if op.kind == RECV_ANY and op.partner is None:  # told of each rank of its group that is gone, once
            return bool(self._unmourned(op, mishaps))
        return op.end is None and op.partner is None and op.peer in mishaps.gone

    def _mourn(self, op: Op, mishaps: Mishaps) -> int:
        """The rank that is gone and for which `op` waits; a receive from any source that fails is taken back."""
        if op.meeting is not None:
            return min(mishaps.gone & set(op.meeting.group.ranks) - set(op.meeting.ops))
        if op.kind != RECV_ANY:
            return op.peer
        gone = min(self._unmourned(op, mishaps))
        self.ranks[op.rank].mourned.add(gone)
        self._receives[-1, op.rank, op.tag].remove(op)
        return gone

    def _unmourned(self, op: Op, mishaps: Mishaps) -> set[int]:
        members = self.groups[op.tag >> GROUP_BITS].ranks if self.groups else range(len(self.ranks))
        return (mishaps.gone - self.ranks[op.rank].mourned).intersection(members)

    def _befalls(self, send: Op, mishaps: Mishaps) -> bool:
        """Apply what befalls a message as it is sent. Returns whether it is lost."""
        lost, send.late = mishaps.message(send.rank, send.peer)
        rank = self.ranks[send.rank]
        if lost:
            cost = self.network.cost(send.rank, send.peer, send.size)
            self.span(DROPPED, rank, rank.clock, rank.clock + cost, send.line, send.peer)
            self._at(rank.clock + cost, send)
        elif send.late:
            self.span(DELAYED, rank, rank.clock, rank.clock + send.late, send.line, send.peer)
        return lost


__all__ = ["RECV", "RECV_ANY", "SEND", "Ended", "Op", "PeerGone", "Rank", "Scheduler"]
