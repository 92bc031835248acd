"""What every rank does at each moment of a picture. It travels in the picture as <metadata>, and `player.js` lets
whoever looks play and step it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from importlib import resources

from grader.trace import cards
from grader.trace.events import SEND, Operation
from grader.trace.scene import NEVER, Scene, Wait
from grader.trace.sheet import Sheet

MOST = 400  # moments; more are nobody's to step through
MOST_NAMED = 6  # messages that are on the way
Changes = list[tuple[int, str]]  # from which moment on, and what then


def added(svg: str, sheet: Sheet, scene: Scene) -> str:
    """The picture of a sheet with the moments of its whole scene, if there is anything to step through."""
    times = scene.moments()
    if not 2 <= len(times) <= MOST:
        return svg
    waits: dict[int, list[Wait]] = {rank: [] for rank in range(scene.ranks)}
    for wait in scene.waits:
        waits[wait.op.rank].append(wait)
    rows = [
        (f"rank {rank}", _changes([_state(scene, rank, mine, time) for time in times])) for rank, mine in waits.items()
    ]
    if scene.arrows:
        rows.append(("on the way", _changes([_moving(scene, time) for time in times])))
    lines = [f"M0 {sheet.y(time):.1f}H{sheet.width:.0f}" for time in times]
    return carrying(svg, [scene.unit.tell(time) for time in times], lines, rows)


def carrying(svg: str, times: Sequence[str], lines: Sequence[str], rows: Sequence[tuple[str, Changes]]) -> str:
    """The picture with its moments: when each is, the path of the line that shows it, and what each row says."""
    told = {"times": times, "lines": lines, "rows": rows}
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return svg.replace("</svg>", f"<metadata>{escape(text)}</metadata>\n</svg>")


def still(svg: str) -> str:
    """The picture for where no script runs, or where its moments would tell too much."""
    return re.sub(r"<metadata>[^<]*</metadata>\n?", "", svg)


def player() -> str:
    """The script that makes the pictures playable that stand before it in a page, or in a notebook."""
    return resources.files("grader.trace").joinpath("player.js").read_text("utf-8")


def script() -> str:
    """The player as an element."""
    return f"<script>\n{player()}</script>"


def _changes(states: Sequence[str]) -> Changes:
    return [(at, words) for at, words in enumerate(states) if at == 0 or words != states[at - 1]]


def _state(scene: Scene, rank: int, waits: Sequence[Wait], time: float) -> str:
    """What a rank does from this moment on."""
    if time >= scene.finish[rank]:
        killed = any(stretch.span.rank == rank for stretch in scene.faults("killed"))
        return scene.marks.get(rank, "killed" if killed else "returned")
    for wait in waits:
        if wait.since <= time < wait.until:
            op = wait.op
            line = f" (line {op.wait_line or op.line})" if op.wait_line or op.line else ""
            what = cards.told(op).removeprefix(f"rank {rank} ")
            if wait.until == NEVER:
                return what.replace("waits", "waits forever", 1) + line
            return (what if time < wait.moving else _moves(op)) + line
    for stretch in scene.faults("compute"):
        if stretch.span.rank == rank and stretch.since <= time < stretch.until:
            return f"computes {stretch.span.name}".strip()
    if rank in scene.marks and time >= scene.makespan:
        return scene.marks[rank]
    return "runs"


def _moves(op: Operation) -> str:
    if op.collective:
        return f"its data move in {op.name}"
    return f"sends to rank {op.peer}" if op.kind == SEND else f"receives from rank {op.peer}"


def _moving(scene: Scene, time: float) -> str:
    """The messages that are on the way."""
    found = [arrow for arrow in scene.arrows if arrow.since <= time < arrow.until]
    named = ", ".join(
        f"{arrow.send.rank} → {arrow.recv.rank}: {arrow.send.size:,} bytes" for arrow in found[:MOST_NAMED]
    )
    return f"{named} and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else named or "nothing"
