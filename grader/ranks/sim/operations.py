"""What the scheduler moves about: ranks, operations, groups, and the meetings that are collectives. Without torch."""

from __future__ import annotations

import _thread
from collections.abc import Sequence
from typing import Any

TIMER = 0  # the kind of an operation that is no rank's: its payload is called at its time


class Ended(BaseException):
    """Raised in a rank that is to unwind, because the run is over."""


class Killed(BaseException):
    """Raised in a rank that a fault kills."""


class PeerGone(RuntimeError):  # noqa: N818 - learners read the name
    """What a rank sees of a peer that was killed."""

    __module__ = "builtins"  # in a traceback: nothing of ours


class Op:
    """A send, a receive, or one rank's part of a collective. Times are virtual seconds."""

    __slots__ = (
        "done",
        "end",
        "info",
        "kind",
        "late",
        "line",
        "meeting",
        "memory",
        "number",
        "partner",
        "payload",
        "peer",
        "posted",
        "rank",
        "size",
        "start",
        "tag",
        "target",
    )

    def __init__(self, rank: int, number: int, kind: int, peer: int, tag: int, size: int, line: int) -> None:
        self.rank, self.number, self.kind, self.peer, self.tag = rank, number, kind, peer, tag
        self.size, self.line = size, line
        self.info = 0  # the data type and the reduction, for the trace
        self.partner: Op | None = None
        self.meeting: Meeting | None = None
        self.payload: Any = None  # what a send carries; put into the receive when it is done
        self.target: Any = None  # the tensor it reads or fills
        self.memory = (0, 0)  # where that lies: addresses from, to
        self.posted = 0.0
        self.start: float | None = None
        self.end: float | None = None
        self.late = 0.0  # how much later than its send a message is received
        self.done = False


class Group:
    """A process group: its number in the trace, its ranks in group order, and the collectives some have joined."""

    def __init__(self, number: int, ranks: Sequence[int]) -> None:
        self.number, self.ranks = number, tuple(ranks)
        self.joined = dict.fromkeys(ranks, 0)
        self.meetings: dict[int, Meeting] = {}


class Meeting:
    """One collective: the parts of those that have joined. `signature` is what all must agree on."""

    __slots__ = ("agreed", "group", "ops", "result", "signature", "taken")

    def __init__(self, group: Group, signature: Any) -> None:
        self.group, self.signature, self.agreed = group, signature, True
        self.ops: dict[int, Op] = {}
        self.taken = 0  # how many have got their results
        self.result: Any = None  # made by the first that needs it

    def take(self) -> None:
        """One more has got its results, or will never ask for them."""
        self.taken += 1
        if self.taken == len(self.group.ranks):
            self.ops.clear()  # no cycles: the garbage collector is off


class Rank:
    """One simulated rank."""

    def __init__(self, number: int, tie: int) -> None:
        self.number, self.tie = number, tie
        self.baton = _thread.allocate_lock()
        self.baton.acquire()
        self.thread = 0
        self.records = bytearray()
        self.data: dict[str, Any] = {}  # what the caller keeps for it
        self.begin()

    def begin(self) -> None:
        """A new call begins."""
        self.clock = 0.0
        self.blocked: Op | None = None
        self.state = "running"  # running, returned, raised, killed
        self.outcome: Any = None
        self.posted = 0
        self.unwound = False  # killed, and its thread is out of the learner's code
        self.mourned: set[int] = set()  # the gone ranks that a receive from any source has told of
        self.records.clear()
