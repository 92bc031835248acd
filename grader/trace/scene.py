"""What there is to draw of a run, in one form for every kind of picture: messages, waits, collectives, faults.

All times are those of `times.of`: virtual seconds, or logical rounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from grader import says
from grader.trace import times
from grader.trace.events import SEND, Operation, Span, Trace
from grader.trace.replay import Timed
from grader.trace.times import NANOSECONDS, Unit

NEVER = Timed.never


@dataclass(frozen=True)
class Arrow:
    """A message that moved. `until` is NEVER if it had not arrived when the run ended; `delayed` is the fault."""

    send: Operation
    recv: Operation
    since: float
    until: float
    delayed: Span | None = None


@dataclass(frozen=True)
class Loose:
    """A send or receive whose other side never came; `dropped` is the fault that took the message."""

    op: Operation | None
    rank: int
    peer: int
    at: float
    until: float = NEVER
    dropped: Span | None = None


@dataclass(frozen=True)
class Wait:
    """A rank stood still in `op`: from `since` until its data began to move, and on until it was there."""

    op: Operation
    since: float
    moving: float
    until: float


@dataclass(frozen=True)
class Band:
    """One collective: who joined when, when it began to move, and when it was over."""

    parts: tuple[Operation, ...]
    group: tuple[int, ...]
    joined: Mapping[int, float]
    since: float
    moving: float
    until: float

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(op.name for op in self.parts))

    @property
    def mismatched(self) -> bool:
        return len(self.names) > 1

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks of the group that never joined."""
        return tuple(rank for rank in self.group if rank not in self.joined)

    @property
    def size(self) -> int:
        return max(op.size for op in self.parts)


@dataclass(frozen=True)
class Stretch:
    """A span in the picture's time."""

    span: Span
    since: float
    until: float


@dataclass(frozen=True)
class Fold:
    """A time in which `period` collectives are done again, `times` times, and which is left out of a picture."""

    since: float
    until: float
    period: int
    times: int

    @property
    def words(self) -> str:
        if self.period == 1:
            return f"… {self.times} more like this"
        return f"… the {self.period} collectives above, {says.counted(self.times, 'more time')}"


@dataclass
class Scene:
    """Everything that is drawn of one call of one run."""

    trace: Trace
    timed: Timed
    unit: Unit
    cycle: tuple[int, ...]
    marks: dict[int, str]
    arrows: list[Arrow] = field(default_factory=list)
    loose: list[Loose] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    folds: tuple[Fold, ...] = ()

    @property
    def ranks(self) -> int:
        return self.trace.ranks

    @property
    def finish(self) -> list[float]:
        return self.timed.finish

    @property
    def makespan(self) -> float:
        return self.timed.makespan

    @property
    def stuck(self) -> list[Wait]:
        """What waits for ever."""
        return [wait for wait in self.waits if wait.until == NEVER]

    def faults(self, what: str) -> list[Stretch]:
        return [stretch for stretch in self.stretches if stretch.span.what == what]

    @cached_property
    def ring_steps(self) -> frozenset[int]:
        """1 where every rank talks to its right (modulo N), N-1 where every rank talks to its left."""
        n = self.ranks
        pairs = {(op.rank, op.peer) for op in self.trace.all_operations() if op.kind == SEND}
        pairs |= {(wait.op.rank, wait.op.peer) for wait in self.stuck if wait.op.receives}
        beside = sum((target - source) % n in (1, n - 1) for source, target in pairs)
        if beside < 0.75 * len(pairs):  # they talk to each other in many ways, and a ring among them
            return frozenset()
        return frozenset(step % n for step in (1, -1) if all((rank, (rank + step) % n) in pairs for rank in range(n)))

    def moments(self) -> list[float]:
        """Every time at which something begins or ends, in order, each once."""
        found = {0.0, self.makespan}
        for wait in self.waits:
            found |= {wait.since, wait.moving, wait.until}
        for arrow in self.arrows:
            found |= {arrow.since, arrow.until}
        for band in self.bands:
            found |= {*band.joined.values(), band.moving, band.until}
        for stretch in self.stretches:
            found |= {stretch.since, stretch.until}
        return sorted(time for time in found if 0 <= time <= self.makespan)


def of(trace: Trace, cycle: Sequence[int] = (), marks: Mapping[int, str] | None = None, unit: str = "") -> Scene:
    """What there is to draw of `trace`; `unit` ("round", "ns", "us", "ms", "s") overrides the choice of one."""
    timed = times.of(trace)
    scene = Scene(trace, timed, times.unit(trace, timed, unit), tuple(cycle), dict(marks or {}))
    scene.stretches = list(_stretches(scene))
    scene.arrows = _arrows(scene)
    scene.loose = _loose(scene)
    scene.bands = _bands(scene)
    moving = {id(op): band.moving for band in scene.bands for op in band.parts}
    for op, since, until in timed.waits:
        begins = timed.starts.get(id(op), moving.get(id(op), until))
        scene.waits.append(Wait(op, since, max(since, min(begins, until)), until))
    return scene


def _stretches(scene: Scene) -> list[Stretch]:
    """The spans; of a replayed trace only what ended a rank, for its clock is another."""
    spans = sorted(scene.trace.spans, key=lambda span: (span.since, span.rank))
    if times.recorded(scene.trace):
        end = scene.makespan
        return [Stretch(span, span.since / NANOSECONDS, min(span.until / NANOSECONDS, end)) for span in spans]
    ends = [time if time != NEVER else scene.makespan for time in scene.finish]
    for span in spans:
        if span.what == "killed":
            scene.finish[span.rank] = ends[span.rank]
            scene.timed.waits = [wait for wait in scene.timed.waits if wait[0].rank != span.rank or wait[2] != NEVER]
    return [Stretch(span, ends[span.rank], ends[span.rank]) for span in spans if span.what == "killed"]


def _arrows(scene: Scene) -> list[Arrow]:
    timed = scene.timed
    delays: dict[tuple[int, int], list[Stretch]] = defaultdict(list)
    for stretch in scene.faults("delayed"):
        delays[stretch.span.rank, stretch.span.peer].append(stretch)
    arrows = []
    for send, recv in scene.trace.messages:
        if id(send) not in timed.starts:
            continue
        since = timed.starts[id(send)]
        until = max(timed.ends.get(id(recv), NEVER), timed.ends[id(send)])
        here = delays[send.rank, recv.rank]
        late = next((d for d in here if d.span.since == send.posted), None)
        if late is not None:
            here.remove(late)
        arrows.append(Arrow(send, recv, since, until, late.span if late else None))
    return sorted(arrows, key=lambda arrow: (arrow.since, arrow.send.rank, arrow.send.number))


def _loose(scene: Scene) -> list[Loose]:
    """What was sent and never received, or the other way round, but for what a rank waits in: that is a wait."""
    waited_in = {id(op) for op, _, until in scene.timed.waits if until == NEVER}
    met = {id(op) for pair in scene.trace.messages for op in pair}
    alone = [op for op in scene.trace.all_operations() if not op.collective and id(op) not in met and op.peer >= 0]
    posted = scene.timed.posted
    found = []
    for stretch in scene.faults("dropped"):
        span = stretch.span
        sends = [op for op in alone if op.kind == SEND and (op.rank, op.peer) == (span.rank, span.peer)]
        lost = next(iter(sends), None)  # in posting order, as the faults are in the order of time
        if lost is not None:
            alone.remove(lost)
        found.append(Loose(lost, span.rank, span.peer, stretch.since, stretch.until, span))
    found += [
        Loose(op, op.rank, op.peer, posted[id(op)]) for op in alone if id(op) in posted and id(op) not in waited_in
    ]
    return found


def _bands(scene: Scene) -> list[Band]:
    timed, bands = scene.timed, []
    for parts in scene.trace.collectives:
        joined = {op.rank: timed.posted[id(op)] for op in parts if id(op) in timed.posted}
        if not joined:
            continue
        group = scene.trace.groups.get(parts[0].tag, tuple(sorted(joined)))
        whole = len(joined) >= len(group) and len({op.kind for op in parts}) == 1
        starts = [timed.starts[id(op)] for op in parts if id(op) in timed.starts]
        ends = [timed.ends[id(op)] for op in parts if id(op) in timed.ends]
        moving = max(starts) if starts and whole else NEVER
        until = max(ends) if ends and whole else NEVER
        if until != NEVER and parts[0].name == "new_group":
            continue  # it takes no time and moves no data
        bands.append(Band(tuple(parts), group, joined, min(joined.values()), moving, until))
    return sorted(bands, key=lambda band: (band.since, min(band.joined)))
