"""Faults in a space-time diagram: ranks that were killed or slowed, links that were cut."""

from __future__ import annotations

from collections.abc import Iterator

from grader.trace import cards, style
from grader.trace.scene import Scene, Stretch
from grader.trace.sheet import BAR, Sheet
from grader.trace.style import BAD, BAD_PALE, ODD


def draw(sheet: Sheet) -> Iterator[str]:
    """Faults that belong to a lifeline or lie between two; those of messages are drawn with the messages."""
    scene = sheet.scene
    for stretch in scene.faults("partitioned"):
        yield sheet.part(_partition(sheet, stretch), cards.stretch(scene, stretch))
    for stretch in scene.faults("slowed"):
        yield sheet.part(_slowed(sheet, stretch), cards.stretch(scene, stretch))
    for stretch in scene.faults("killed"):
        rank = stretch.span.rank
        x, y = sheet.x(rank), sheet.y(stretch.since)
        sheet.room.take((x - 7, y - 7, x + 7, y + 7))
        yield sheet.part(style.cross(x, y, 7), cards.stretch(scene, stretch))
        words = scene.marks.get(rank, "killed")
        sheet.rows(x, y + 21, words, BAD, 3)


def legend(scene: Scene) -> list[tuple[str, str]]:
    entries = []
    if scene.faults("killed"):
        entries.append((style.cross(11, -5, 5), "killed"))
    if scene.faults("slowed"):
        entries.append((_wave(8, -12, 2, 14), "slowed down"))
    if scene.faults("partitioned"):
        box = f'<rect x="4" y="-12" width="14" height="14" fill="{BAD_PALE}" stroke="{BAD}" stroke-dasharray="4 3"/>'
        entries.append((box, "nothing passes"))
    if any(found.dropped for found in scene.loose):
        line = f'<path d="M0 -4H13" stroke="{BAD}" stroke-width="1.6"/>'
        entries.append((line + style.cross(16, -4, 4), "lost on the way"))
    if scene.faults("delayed"):
        entries.append((style.arrow(style.MESSAGE, "7 3"), "delayed"))
    return entries


def _wave(x: float, top: float, count: int, height: float) -> str:
    step = height / (2 * count)
    return (
        f'<path d="M{x:.1f} {top:.1f}' + f"q-4 {step / 2:.2f} 0 {step:.2f}t0 {step:.2f}" * count + '" fill="none" '
        f'stroke="{ODD}" stroke-width="1.5"/>'
    )


def _slowed(sheet: Sheet, stretch: Stretch) -> str:
    """A wavy line beside the lifeline, to its left."""
    x, top, bottom = sheet.x(stretch.span.rank) - BAR - 5, sheet.y(stretch.since), sheet.y(stretch.until)
    count = max(1, round((bottom - top) / 9))
    sheet.room.cross((x - 2, top, x - 2, bottom))
    places = [(x - 7, top + 12), (x - 7, top + 30), (x - 7, (top + bottom) / 2)]
    sheet.label("slowed", places, 10, ODD, "end")
    return _wave(x, top, count, max(bottom - top, 6))


def _partition(sheet: Sheet, stretch: Stretch) -> str:
    """A dashed gap between two ranks; beside a lifeline on both sides where the rank is cut off from every other."""
    rank, peer = stretch.span.rank, stretch.span.peer
    top, bottom = sheet.y(stretch.since), max(sheet.y(stretch.until), sheet.y(stretch.since) + 4)
    if peer < 0:
        gaps = [(rank - 0.28, rank - 0.2), (rank + 0.2, rank + 0.28)]
    elif abs(rank - peer) == 1:
        low = min(rank, peer)
        gaps = [(low + 0.4, low + 0.6)]
    else:
        low, high = sorted((rank, peer))
        gaps = [(low + 0.4, low + 0.6), (high - 0.6, high - 0.4)]
    shapes = []
    for left, right in gaps:
        sheet.room.take((sheet.x(left), top, sheet.x(right), bottom))
        shapes.append(
            f'<rect x="{sheet.x(left):.1f}" y="{top:.1f}" width="{sheet.x(right) - sheet.x(left):.1f}" '
            f'height="{bottom - top:.1f}" fill="{BAD_PALE}" fill-opacity="0.6" stroke="{BAD}" stroke-dasharray="4 3"/>'
        )
    if len(gaps) == 2 and peer >= 0:  # the same cut, seen at both of its ends
        shapes.append(
            f'<path d="M{sheet.x(gaps[0][1]):.1f} {top:.1f}H{sheet.x(gaps[1][0]):.1f}" stroke="{BAD}" '
            f'stroke-dasharray="2 3"/>'
        )
    words = "cut off" if peer < 0 else f"{min(rank, peer)} and {max(rank, peer)} cut off"
    middle = sheet.x((gaps[0][0] + gaps[0][1]) / 2)
    sheet.label(words, [(middle, top - 4), (middle, bottom + 11)], 10, BAD)
    return "".join(shapes)
