"""The event model: what each rank did, in its own order, and which send met which receive."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

SEND, RECV, RECV_ANY = 1, 2, 3
_RECEIVES = (RECV, RECV_ANY)
GROUP_BITS = 32  # a message's tag here: its group's number above, the learner's tag below
# What an operation's `info` holds: bit 0 a thread of the learner's, then the data type, then the reduction
# (0: unknown), then whether autograd was in a backward pass.
DTYPES = ("", "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
          "complex64", "complex128")  # fmt: skip
REDUCTIONS = ("", "SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG", "PREMUL_SUM")
DTYPE_SHIFT, REDUCTION_SHIFT, IN_BACKWARD = 1, 7, 1 << 12
SPANS = ("compute", "killed", "slowed", "delayed", "dropped", "partitioned")  # a span's code is its place here
_COLLECTIVES = ("all_reduce", "all_reduce_coalesced", "broadcast", "reduce", "all_gather", "all_gather_into_tensor",
                "all_gather_coalesced", "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all",
                "all_to_all_single", "barrier", "monitored_barrier", "new_group")  # fmt: skip
_FIRST_COLLECTIVE = 16
COLLECTIVE_CODES = {name: code for code, name in enumerate(_COLLECTIVES, start=_FIRST_COLLECTIVE)}
_NAMES = {SEND: "send", RECV: "recv", RECV_ANY: "recv from any rank"} | {c: n for n, c in COLLECTIVE_CODES.items()}


@dataclass(slots=True)
class Operation:
    """One operation of one rank.

    `peer` is the other rank (-1: any, or none) or a collective's root, `tag` a message's tag or a collective's group,
    `size` in bytes, `line` the learner's line that posted it (0: none of theirs). `wait_line` is where the rank waited
    for it, `done` says whether it went on from there, `failed` that its wait ended in an error. `posted`, `waited` and
    `resumed` are when; `started` and `ended` are when it began to move and was over. Times are in nanoseconds of the
    trace's clock, -1 where unknown.
    """

    rank: int
    number: int
    kind: int
    peer: int
    tag: int
    size: int
    line: int
    posted: int = -1
    wait_line: int = 0
    waited: int = -1
    resumed: int = -1
    started: int = -1
    ended: int = -1
    done: bool = False
    failed: bool = False
    threaded: bool = False
    info: int = 0

    def holds_like(self, other: Operation) -> bool:
        """Whether both are known to have the same data type, or not known to have any."""
        return not (self.info ^ other.info) >> DTYPE_SHIFT & 0x3F

    @property
    def dtype(self) -> str:
        """The tensor's data type as torch calls it; empty where unknown."""
        code = self.info >> DTYPE_SHIFT & 0x3F
        return DTYPES[code] if code < len(DTYPES) else ""

    @property
    def reduction(self) -> str:
        """What a collective does with values: "SUM", ...; empty where it has none."""
        code = self.info >> REDUCTION_SHIFT & 0x1F
        return REDUCTIONS[code] if code < len(REDUCTIONS) else ""

    @property
    def backward(self) -> bool:
        """Whether it was posted by what autograd runs in a backward pass."""
        return bool(self.info & IN_BACKWARD)

    @property
    def name(self) -> str:
        return _NAMES.get(self.kind, "operation")

    @property
    def receives(self) -> bool:
        return self.kind in _RECEIVES

    @property
    def collective(self) -> bool:
        return self.kind >= _FIRST_COLLECTIVE


class Step(NamedTuple):  # of which a run has thousands, and a tuple is made in half the time of a frozen dataclass
    """One entry of a rank's program order: it posted an operation, or waited for it."""

    what: str  # "post" | "wait"
    operation: Operation


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one rank's time that is no operation, in nanoseconds: it computed, or a fault befell it.

    `what` is "compute", or a fault: "killed", "slowed", "partitioned", "delayed", "dropped". A moment has `since` ==
    `until`. `peer` is the other rank of a fault between two (-1: none). `name` is what was computed, where that is
    known: "F0" is the first forward pass.
    """

    rank: int
    what: str
    since: int
    until: int
    line: int = 0
    peer: int = -1
    name: str = ""

    @property
    def of_pass(self) -> str:
        """The letter of a pass of a model, "F", "B" or "W" with the number of a micro-batch; empty for all else."""
        return self.name[0] if self.name[:1] in ("F", "B", "W") and self.name[1:].isdecimal() else ""


@dataclass
class Trace:
    """Every rank's steps during one call.

    `virtual` says that times are a simulator's virtual time, from 0, in which every rank has `finish` (nanoseconds).
    `groups` holds the ranks of every process group in which a collective was called; group 0 is the world.
    `carried` has, by rank and number, what each send carried, where that was asked for, and `notes` what is known of
    it in words: few for the picture ("chunk 1"), and more.
    """

    ranks: int
    steps: list[list[Step]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    groups: dict[int, tuple[int, ...]] = field(default_factory=dict)
    virtual: bool = False
    finish: tuple[int, ...] = ()
    carried: dict[tuple[int, int], bytes] = field(default_factory=dict, repr=False)
    notes: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.steps:
            self.steps = [[] for _ in range(self.ranks)]
        self.groups.setdefault(0, tuple(range(self.ranks)))

    def operations(self, rank: int) -> list[Operation]:
        """What `rank` posted, in order."""
        return [operation for what, operation in self.steps[rank] if what == "post"]

    def all_operations(self) -> Iterable[Operation]:
        for steps in self.steps:
            for what, operation in steps:
                if what == "post":
                    yield operation

    def bytes_sent(self, rank: int) -> int:
        """Bytes of every message that `rank` sent; a collective counts as a ring algorithm's."""
        total = 0
        for op in self.operations(rank):
            if op.kind == SEND:
                total += op.size
            elif op.collective:
                total += ring_bytes(op, self.groups.get(op.tag, ()))
        return total

    def messages_sent(self, rank: int) -> int:
        return sum(op.kind == SEND for op in self.operations(rank))

    @property
    def lost(self) -> Counter[tuple[int, int, int]]:
        """How many messages a fault took, by sender, receiver and when they were sent."""
        return Counter((span.rank, span.peer, span.since) for span in self.spans if span.what == "dropped")

    @cached_property
    def messages(self) -> list[tuple[Operation, Operation]]:
        """The pairs (send, recv) that met (see `match`); a send whose message a fault took met none."""
        lost = self.lost
        if not lost:
            return match(self.all_operations())
        going = []
        for op in self.all_operations():
            if op.kind == SEND and lost[op.rank, op.peer, op.posted] > 0:
                lost[op.rank, op.peer, op.posted] -= 1
            else:
                going.append(op)
        return match(going)

    @property
    def collectives(self) -> list[list[Operation]]:
        """The operations that are one collective, each rank's part: the k-th that each called in the same group.

        In the order in which they were first posted by the lowest rank. Those of a mismatch stand together too.
        """
        found: dict[tuple[int, int], list[Operation]] = {}
        for rank in range(self.ranks):
            counted: dict[int, int] = defaultdict(int)
            for op in self.operations(rank):
                if op.kind >= _FIRST_COLLECTIVE:
                    found.setdefault((op.tag, counted[op.tag]), []).append(op)
                    counted[op.tag] += 1
        return list(found.values())


def ring_bytes(op: Operation, group: Sequence[int]) -> int:
    """Bytes that one rank sends in a collective of `group` where data goes round a ring, or straight to its one target.

    (Thakur, Rabenseifner, Gropp 2005, section 4; for broadcast and reduce a pipeline in which all but the last pass the
    whole tensor on.)
    """
    n, root = len(group), op.peer if op.peer in group else min(group, default=-1)
    if n < 2 or op.rank not in group:
        return 0
    if op.name.startswith("all_reduce"):
        return 2 * (n - 1) * op.size // n
    if op.name.startswith(("reduce_scatter", "all_to_all")):
        return (n - 1) * op.size // n
    if op.name.startswith("all_gather"):
        return (n - 1) * op.size
    if op.name == "broadcast":
        return op.size if (group.index(op.rank) + 1) % n != group.index(root) else 0
    if op.name in ("reduce", "gather"):
        return op.size if op.rank != root else 0
    if op.name == "scatter":
        return (n - 1) * op.size if op.rank == root else 0
    return 0


def match(operations: Iterable[Operation]) -> list[tuple[Operation, Operation]]:
    """Pair sends with receives: in posting order per (source, destination, tag); receives from any source take the
    source they named when they were done."""
    sends: dict[tuple[int, int, int], deque[Operation]] = defaultdict(deque)
    receives: list[Operation] = []
    for op in operations:
        if op.kind == SEND:
            sends[op.rank, op.peer, op.tag].append(op)
        elif op.kind in _RECEIVES:
            receives.append(op)
    pairs = []
    for op in receives:
        waiting = sends.get((op.peer, op.rank, op.tag))
        if op.peer >= 0 and waiting:
            pairs.append((waiting.popleft(), op))
    return pairs
