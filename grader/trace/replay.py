"""Logical time: the same operations replayed on an ideal network, so that counts do not depend on the machine.

The model is the one-port alpha-beta model: a message of S bytes takes alpha + S x beta; it starts when both sides have
posted it (rendezvous) and neither the sender's outgoing nor the receiver's incoming port is busy. Computation takes no
time. With alpha = 1 and beta = 0 a rank's finishing time is its number of communication rounds.
(Hockney 1994 for alpha and beta; Bar-Noy and Kipnis 1992 for one port.)
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from grader.trace.events import Operation, Step, Trace


@dataclass
class Timed:
    """When things happened in logical time. `never` marks what did not happen."""

    never = float("inf")
    posted: dict[int, float] = field(default_factory=dict)
    starts: dict[int, float] = field(default_factory=dict)
    ends: dict[int, float] = field(default_factory=dict)
    waits: list[tuple[Operation, float, float]] = field(default_factory=list)
    finish: list[float] = field(default_factory=list)
    makespan: float = 0.0


def replay(trace: Trace, alpha: float = 1.0, beta: float = 0.0) -> Timed:
    """Replay `trace`; operations are keyed by id(operation). A rank that waits for ever finishes at infinity."""
    return _Replay(trace, alpha, beta).run()


class _Replay:
    def __init__(self, trace: Trace, alpha: float, beta: float) -> None:
        self.trace, self.alpha, self.beta = trace, alpha, beta
        self.partner: dict[int, Operation] = {}
        for send, recv in trace.messages:
            self.partner[id(send)], self.partner[id(recv)] = recv, send
        self.timed = Timed(finish=[0.0] * trace.ranks)
        self.position = [0] * trace.ranks
        self.clock = [0.0] * trace.ranks
        self.blocked: dict[int, tuple[Operation, float]] = {}  # what a rank waits for, and since when
        self.out_free = [0.0] * trace.ranks
        self.in_free = [0.0] * trace.ranks
        self.queue: list[Operation] = []  # sends whose both sides are posted, waiting for ports
        self.collectives: dict[int, list[Operation]] = {}  # by operation, those of its collective that have joined
        for parts in trace.collectives:
            joined: list[Operation] = []
            self.collectives |= {id(op): joined for op in parts}
        self.events: list[tuple[float, int, Operation]] = []
        self.sequence = 0

    def run(self) -> Timed:
        for rank in range(self.trace.ranks):
            self._advance(rank)
        self._start(0.0)
        while self.events:
            now = self.events[0][0]
            ended = []
            while self.events and self.events[0][0] == now:
                ended.append(heapq.heappop(self.events)[2])
            for operation in ended:
                for side in (operation, self.partner.get(id(operation))):
                    if side is not None:
                        self._complete(side, now)
            self._start(now)
        for rank in range(self.trace.ranks):
            stuck = self.position[rank] < len(self.trace.steps[rank])
            self.timed.finish[rank] = Timed.never if stuck else self.clock[rank]
        finite = [end for end in (*self.timed.ends.values(), *self.clock) if end != Timed.never]
        self.timed.makespan = max(finite, default=0.0)
        for operation, since in self.blocked.values():
            self.timed.waits.append((operation, since, Timed.never))
        return self.timed

    def _advance(self, rank: int) -> None:
        """Run `rank` on from where it is until it blocks or ends."""
        steps: list[Step] = self.trace.steps[rank]
        while self.position[rank] < len(steps):
            step = steps[self.position[rank]]
            operation = step.operation
            if step.what == "post":
                self._post(operation, self.clock[rank])
            elif not operation.threaded and not operation.failed:  # nor does another thread's wait hold this one up
                end = self.timed.ends.get(id(operation))
                if end is None or end > self.clock[rank]:
                    self.blocked[id(operation)] = (operation, self.clock[rank])
                    return
            self.position[rank] += 1

    def _post(self, operation: Operation, now: float) -> None:
        self.timed.posted[id(operation)] = now
        if operation.collective:
            self._join(operation, now)
            return
        partner = self.partner.get(id(operation))
        if partner is not None and id(partner) in self.timed.posted:
            self.queue.append(operation if not operation.receives else partner)

    def _join(self, operation: Operation, now: float) -> None:
        """The k-th collective that every rank of a group called in it is one and ends alpha after the last joined."""
        joined = self.collectives[id(operation)]
        joined.append(operation)
        if len(joined) == len(self.trace.groups.get(operation.tag, ())) and len({op.kind for op in joined}) == 1:
            end = now if operation.name == "new_group" else now + self.alpha
            for op in joined:
                self.timed.starts[id(op)] = now
                self.timed.ends[id(op)] = end
                self._event(end, op)

    def _start(self, now: float) -> None:
        """Start every queued message whose ports are free at `now`: those that were posted first come first."""
        waiting, self.queue = self.queue, []
        waiting.sort(key=lambda send: (self.timed.posted[id(send)], send.rank, send.number))
        for send in waiting:
            if self.out_free[send.rank] <= now and self.in_free[send.peer] <= now:
                end = now + self.alpha + self.beta * send.size
                self.out_free[send.rank] = self.in_free[send.peer] = end
                for side in (send, self.partner[id(send)]):
                    self.timed.starts[id(side)] = now
                    self.timed.ends[id(side)] = end
                self._event(end, send)
            else:
                self.queue.append(send)

    def _event(self, time: float, operation: Operation) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (time, self.sequence, operation))

    def _complete(self, operation: Operation, now: float) -> None:
        waiter = self.blocked.pop(id(operation), None)
        if waiter is None:
            return
        rank, since = operation.rank, waiter[1]
        self.timed.waits.append((operation, since, now))
        self.clock[rank] = now
        self.position[rank] += 1
        self._advance(rank)


def rounds(trace: Trace) -> list[float]:
    """Per rank, the communication rounds until it was done: logical time at alpha = 1, beta = 0."""
    return replay(trace).finish
