"""Message matching, collectives and faults on the ranks of a Baton. Knows nothing of torch.

What a message or a collective costs is `grader.ranks.network`'s, which of them move is `sim.links`', what goes wrong by
order is `sim.mishaps`'.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Sequence
from typing import Any

from grader.ranks.network import Network
from grader.ranks.sim.baton import Baton
from grader.ranks.sim.links import Links
from grader.ranks.sim.mishaps import Mishaps
from grader.ranks.sim.operations import TIMER, Group, Killed, Meeting, Op, PeerGone, Rank
from grader.ranks.sim.turns import Turns
from grader.sandbox import frames
from grader.trace.events import GROUP_BITS, RECV, RECV_ANY, SEND, SPANS

NANOSECONDS = 1e9
_pack = frames.EVENT.pack
LONGEST = 1e8  # seconds: virtual times are kept as nanoseconds in 64 bits
COMPUTE, KILLED, DELAYED, DROPPED = (SPANS.index(name) for name in ("compute", "killed", "delayed", "dropped"))


class Scheduler(Baton):
    """Simulated ranks and what they send each other."""

    def __init__(
        self, ranks: int, network: Network, seed: int, trace: bool = True, mishaps: Mishaps | None = None,
        turns: Turns | None = None,
    ) -> None:  # fmt: skip
        super().__init__(ranks, seed, turns)
        self.network, self.tracing, self.mishaps = network, trace, mishaps
        self.groups: list[Group] = []
        self._sends: dict[tuple[int, int, int], deque[Op]] = {}
        self._receives: dict[tuple[int, int, int], deque[Op]] = {}
        self._from_any = False  # whether anybody has ever received from any source
        self._links = Links(ranks, network, mishaps)
        self._collectives_over = [0.0] * ranks

    def _begin(self, fresh: bool) -> None:
        for queues in (self._sends, self._receives):
            queues.clear()  # what nobody received in an earlier call is not received in this one
        self._links.clear()
        self._collectives_over = [0.0] * len(self.ranks)
        for group in self.groups:  # nor does a collective that some joined in it go on
            group.joined = dict.fromkeys(group.ranks, 0)
            group.meetings.clear()
        if self.mishaps is not None and not fresh:  # what befalls ranks befalls their calls, not their loading
            self._set_kills(self.mishaps)

    def compute(self, seconds: float, line: int = 0, name: str = "") -> None:
        """The running rank computes for so long, by a name for pictures. Raises ValueError for what is no time."""
        rank = self.current
        if not 0 <= seconds <= LONGEST:
            raise ValueError(f"a rank can compute or sleep for 0 to {LONGEST:g} seconds, not for {seconds}")
        if self.mishaps is not None:
            seconds *= self.mishaps.slowness(rank.number)
        since, until = rank.clock, rank.clock + seconds
        if name and self.mishaps is not None and self.mishaps.dies_computing(rank.number):
            until -= seconds / 2
            self._call_at(until, functools.partial(self._kill, rank))
        rank.clock = since + seconds
        self.span(COMPUTE, rank, since, until, line, name=name)
        self._make_ready(rank)
        self._give_way(rank)

    def idle(self, seconds: float) -> None:
        """The running rank lets so much time pass, of which nothing is noted."""
        rank = self.current
        rank.clock += seconds
        self._make_ready(rank)
        self._give_way(rank)

    # ---- the trace

    def _record(self, what: int, op: Op, line: int) -> None:
        rank = self.ranks[op.rank]
        at = int(rank.clock * NANOSECONDS)
        rank.records += _pack(what, op.kind, op.info, line, op.peer, op.tag, op.number, op.size, at)

    def _record_done(self, rank: Rank, op: Op) -> None:
        assert op.end is not None
        start, end = int((op.end if op.start is None else op.start) * NANOSECONDS), int(op.end * NANOSECONDS)
        at = int(rank.clock * NANOSECONDS)
        rank.records += _pack(frames.DONE, op.kind, 0, 0, op.peer, start, op.number, end, at)

    def span(
        self, code: int, rank: Rank, since: float, until: float, line: int = 0, peer: int = -1, name: str = ""
    ) -> None:
        """Note a stretch of a rank's time that is no operation (see `grader.trace.events.SPANS`)."""
        if self.tracing:
            ends = int(min(until, 2**33) * NANOSECONDS)
            rank.records += _pack(
                frames.SPAN, code, 0, line, peer, int.from_bytes(name.encode()), 0, ends, int(since * NANOSECONDS)
            )

    # ---- operations

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
            self._record(frames.POST, op, line)
        return op

    def match(self, op: Op) -> None:
        """Look for the other side of a posted send or receive; the first posted is the first matched."""
        if op.kind == SEND:
            if self.mishaps is not None and self._befalls(op, self.mishaps):
                return
            key = op.rank, op.peer, op.tag
            queue = self._receives.get(key)
            if not queue and self._from_any:
                queue = self._receives.get((-1, op.peer, op.tag))
            if not queue:
                if key in self._sends:
                    self._sends[key].append(op)
                else:
                    self._sends[key] = deque((op,))
                if op.size <= self.network.eager_bytes:
                    self._queue(op)
                return
            self._meet(op, queue.popleft())
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
            self._from_any = True
            waiting = [q[0] for (src, dst, tag), q in self._sends.items() if q and dst == op.rank and tag == op.tag]
            if not waiting:
                self._receives.setdefault((-1, op.rank, op.tag), deque()).append(op)
                return
            first = min(waiting, key=lambda send: (send.end or 0.0, self.ranks[send.rank].tie))
            self._sends[first.rank, op.rank, op.tag].popleft()
            self._meet(first, op)

    def _meet(self, send: Op, receive: Op) -> None:
        send.partner, receive.partner = receive, send
        receive.peer = send.rank
        if send.start is None:
            self._queue(send)
        else:  # sent without waiting for this receive
            receive.start = send.start
            if send.end is not None:
                self._at(self.current.clock, receive)

    def _queue(self, send: Op) -> None:
        """A message is ready to go."""
        self._links.queue(send)
        if self._to_start is None:
            self._to_start = self.current.clock

    def _start(self, now: float) -> None:
        self._to_start = None
        for end, send in self._links.start(now):
            self._at(end, send)
        if self._links.look_again < math.inf:
            self._call_at(self._links.look_again, None)

    def _complete(self, op: Op, time: float) -> None:
        if op.kind == SEND:
            if op.start is not None:
                self._links.free(op)
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
        if self._links and self._to_start is None:
            self._to_start = time

    def _wake(self, op: Op, time: float) -> None:
        op.end = time
        rank = self.ranks[op.rank]
        if rank.blocked is op:
            rank.blocked = None
            if time > rank.clock:
                rank.clock = time
            self._make_ready(rank)

    def wait(self, op: Op, line: int) -> None:
        """The running rank waits for an operation of its own. Raises PeerGone if it can only wait for a killed one."""
        rank = self.current
        if self.tracing:
            self._record(frames.WAIT, op, line)
        while op.end is None or op.end > rank.clock:  # a receive can find its message after a kill has woken the rank
            if op.end is None and self.mishaps is not None and self._hopeless(op, self.mishaps):
                if self.tracing:
                    self._record(frames.FAILED, op, 0)
                raise PeerGone(f"Connection closed by peer: rank {self._mourn(op, self.mishaps)} is gone")
            rank.blocked = op
            self._give_way(rank)
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
                self._assemble(meeting, name)
        return op

    def _assemble(self, meeting: Meeting, name: str) -> None:
        ranks = meeting.group.ranks
        begin = max(self.current.clock, *(self._collectives_over[rank] for rank in ranks))
        largest = max(part.size for part in meeting.ops.values())
        cost = self.network.collective_cost(name, largest, ranks)
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
            if not fault.op and not fault.compute:
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
            self._make_ready(rank)
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
                self._make_ready(other)

    def _hopeless(self, op: Op, mishaps: Mishaps) -> bool:
        """Whether what `op` waits for could only come from a rank that is gone."""
        if op.meeting is not None:
            return any(rank in mishaps.gone and rank not in op.meeting.ops for rank in op.meeting.group.ranks)
        if op.kind == RECV_ANY and op.partner is None:  # told of each rank of its group that is gone, once
            return op.peer >= 0 or bool(self._unmourned(op, mishaps))
        return op.end is None and op.partner is None and op.peer in mishaps.gone

    def _mourn(self, op: Op, mishaps: Mishaps) -> int:
        """The rank that is gone and for which `op` waits; a receive from any source that fails is taken back."""
        if op.meeting is not None:
            return min(mishaps.gone & set(op.meeting.group.ranks) - set(op.meeting.ops))
        if op.peer < 0:
            op.peer = min(self._unmourned(op, mishaps))  # for whom it failed, if it is waited for again
            self.ranks[op.rank].mourned.add(op.peer)
            self._receives[-1, op.rank, op.tag].remove(op)
        return op.peer

    def _unmourned(self, op: Op, mishaps: Mishaps) -> set[int]:
        members = self.groups[op.tag >> GROUP_BITS].ranks
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
