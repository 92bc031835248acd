"""What is said of each part of a picture: the text that hovers over it, in SVG and in the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grader import says
from grader.trace.events import SEND, Operation
from grader.trace.scene import NEVER, Arrow, Band, Loose, Scene, Stretch, Wait

_MOST_NAMED = 12
_FAULT = {
    "killed": "rank {0} was killed",
    "slowed": "rank {0} was slowed down",
    "delayed": "the fault delayed a message from rank {0} to {1}",
    "dropped": "a message from rank {0} to {1} was lost",
    "partitioned": "no message passed between rank {0} and {1}",
    "compute": "rank {0} computed",
}


@dataclass(frozen=True)
class Card:
    """One part of a picture. `rows` are what and its value, `lines` the learner's lines, by who ran them; `keys` names
    the operations it is about, so that parts that share one light up together."""

    kind: str
    head: str
    rows: tuple[tuple[str, str], ...]
    since: float
    keys: tuple[str, ...] = ()
    lines: tuple[tuple[str, int], ...] = ()

    @property
    def title(self) -> str:
        """All of it in one line."""
        lines = [f"{who}: line {line}" for who, line in self.lines]
        return "; ".join([self.head, *(f"{name} {value}" for name, value in self.rows), *lines])


def key(op: Operation) -> str:
    return f"{op.rank}.{op.number}"


def named(ranks: Iterable[int]) -> str:
    """ "rank 3", "ranks 0-3, 7"; long lists cut."""
    return says.spans(ranks, _MOST_NAMED)


def message(scene: Scene, arrow: Arrow) -> Card:
    send, recv, unit = arrow.send, arrow.recv, scene.unit
    rows = [("tag", str(send.tag))] if send.tag else []
    if (send.rank, send.number) in scene.trace.notes:
        rows.append(("holds", scene.trace.notes[send.rank, send.number][1]))
    rows += [("began", unit.tell(arrow.since)), *_over("arrived", scene, arrow.since, arrow.until)]
    if arrow.delayed:
        rows.append(("fault", f"delayed by {unit.lasted((arrow.delayed.until - arrow.delayed.since) / 1e9)}"))
    return Card(
        "message",
        f"{send.size} bytes from rank {send.rank} to rank {recv.rank}",
        tuple(rows),
        arrow.since,
        (key(send), key(recv)),
        _lines((f"rank {send.rank} sends", send.line), (f"rank {recv.rank} receives", recv.line)),
    )


def loose(scene: Scene, found: Loose) -> Card:
    op, rank, peer = found.op, found.rank, found.peer
    size = f"{op.size} bytes" if op else "a message"
    if found.dropped:
        head_ = f"{size} from rank {rank} to rank {peer}: lost on the way"
    elif op is not None and op.receives:
        head_ = f"rank {rank} posted a receive from rank {peer}: no message matched it"
    else:
        head_ = f"{size} from rank {rank} to rank {peer}: never received"
    rows = [("tag", str(op.tag))] if op and op.tag else []
    rows.append(("posted", scene.unit.tell(found.at)))
    line = op.line if op else found.dropped.line if found.dropped else 0
    kind = "fault" if found.dropped else "message"
    return Card(kind, head_, tuple(rows), found.at, (key(op),) if op else (), _lines((f"rank {rank}", line)))


def wait(scene: Scene, found: Wait) -> Card:
    op = found.op
    line = op.wait_line or op.line
    rows = [("bytes", str(op.size))] if not op.collective or op.size else []
    rows += [("since", scene.unit.tell(found.since)), *_over("until", scene, found.since, found.until)]
    if found.since < found.moving < found.until:
        rows.append(("moved from", scene.unit.tell(found.moving)))
    return Card("wait", told(op), tuple(rows), found.since, (key(op),), _lines((f"rank {op.rank}", line)))


def told(op: Operation) -> str:
    if op.collective:
        return f"rank {op.rank} waits in {op.name}"
    to = "any rank" if op.peer < 0 else f"rank {op.peer}"
    return f"rank {op.rank} waits to {'send to' if op.kind == SEND else 'receive from'} {to}"


def collective(scene: Scene, band: Band) -> Card:
    unit = scene.unit
    if band.mismatched:
        sides = (
            f"{name} on {named(op.rank for op in band.parts if op.name == name)}"
            for name in band.names
        )  # fmt: skip
        head_ = "not the same collective: " + ", ".join(sides)
    else:
        head_ = f"{band.names[0]} on {named(band.joined)}"
    group = band.parts[0].tag
    first, last = min(band.joined, key=lambda r: (band.joined[r], r)), max(
        band.joined, key=lambda r: (band.joined[r], r)
    )  # fmt: skip
    sizes = sorted({op.size for op in band.parts})
    rows = [("bytes per rank", str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}")] if sizes[-1] else []
    rows += [("group", f"{group} ({named(band.group)})")] if group else []
    if band.joined[first] == band.joined[last]:
        rows.append(("joined", f"all at {unit.tell(band.since)}"))
    else:
        rows.append(("joined", f"first rank {first} at {unit.tell(band.since)}"))
        rows.append(("last", f"rank {last} at {unit.tell(band.joined[last])}"))
    if band.missing:
        rows.append(("never joined", named(band.missing)))
    rows += _over("over", scene, band.since, band.until)
    lines = dict.fromkeys((op.name, op.line) for op in band.parts if op.line)
    return Card(
        "collective", head_, tuple(rows), band.since, tuple(key(op) for op in band.parts), _lines(*lines)
    )  # fmt: skip


def stretch(scene: Scene, found: Stretch) -> Card:
    span, unit = found.span, scene.unit
    head_ = _FAULT.get(span.what, span.what).format(span.rank, f"rank {span.peer}" if span.peer >= 0 else "any other")
    if found.since == found.until:
        rows: list[tuple[str, str]] = [("at", unit.tell(found.since))]
    else:
        rows = [("from", unit.tell(found.since)), *_over("to", scene, found.since, found.until)]
    if span.name:
        rows.insert(0, ("what", span.name))
    kind = "compute" if span.what == "compute" else "fault"
    return Card(kind, head_, tuple(rows), found.since, (), _lines((f"rank {span.rank}", span.line)))


def rank(scene: Scene, number: int) -> Card:
    """A rank as a whole."""
    trace, end = scene.trace, scene.finish[number]
    rows = [
        ("sent", f"{says.size(trace.bytes_sent(number))} in {trace.messages_sent(number)} messages"),
        ("returns", "never" if end == NEVER else scene.unit.tell(end)),
    ]
    if number in scene.marks:
        rows[1] = ("ended", f"{scene.marks[number]}, {scene.unit.tell(end)}" if end != NEVER else scene.marks[number])
    return Card("rank", f"rank {number}", tuple(rows), 0.0 if end == NEVER else end)


def _over(word: str, scene: Scene, since: float, until: float) -> list[tuple[str, str]]:
    took = [] if until == NEVER else [("took", scene.unit.lasted(until - since))]
    return [(word, scene.unit.tell(until)), *took]


def _lines(*lines: tuple[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple((who, line) for who, line in lines if line)
