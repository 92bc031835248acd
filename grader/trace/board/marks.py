"""Events and operations in the picture of a story: crashes, timers, disk writes, new states, what clients asked."""

from __future__ import annotations

from collections.abc import Iterator

from grader.trace import style
from grader.trace.board import phrases
from grader.trace.board.arrows import CLIENT, HALF
from grader.trace.board.scene import Mark, Operation, Scene
from grader.trace.board.sheet import Sheet
from grader.trace.labels import Room, fit, width
from grader.trace.paper import extent, part
from grader.trace.story import What
from grader.trace.style import BAD, COMPUTE, INK, PAPER, QUIET, SOFT, text

BAR, BAR_EDGE, BAR_FAILED = "#e6e0f4", "#9d8cc9", "#eef0f3"
FLAG, FLAG_EDGE, FLAG_INK = "#e8f3ec", "#5aa27c", "#1f5a3b"
_SLOT: dict[What, str] = {"write": "below", "set_timer": "below", "state": "above", "answer": "above"}


def draw(sheet: Sheet) -> Iterator[str]:
    """The signs of all events, the less important ones first. Their words come later, in `label`."""
    for mark in sheet.scene.marks:
        event = mark.event
        if not sheet.knows(event.node):
            continue
        ink = BAD if mark.red else ""
        y = sheet.y(event.node)
        if event.what == "start":
            x, shape = sheet.x(event.at), _dot(sheet.x(event.at), y)
        elif mark.pale:
            x = sheet.x(event.at)
            shape = f'<path d="M{x:.1f} {y - 3.5:.1f}v7" stroke="{ink or QUIET}" stroke-width="1"/>'
        else:
            x = sheet.slot(event.node, _SLOT.get(event.what, "on"), sheet.x(event.at))
            shape = _sign(event.what, x, y, ink)
            sheet.room.take((x - 5, y - 5, x + 5, y + 5) if event.what != "write" else (x - 4, y + 1, x + 4, y + 10))
        yield part(shape, phrases.of_event(event, sheet.scene.unit))
        if not mark.pale:
            sheet.noted.append((mark, x))


def _dot(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.8" fill="{QUIET}"/>'


def _sign(what: What, x: float, y: float, ink: str) -> str:
    """The sign of an event at (x, y); `ink` is its colour where it is not its usual one."""
    if what == "crash":
        return style.cross(x, y, 5.5, ink or INK)
    if what == "restart":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{PAPER}" stroke="{ink or INK}" stroke-width="2"/>'
    if what == "pause":
        return f'<path d="M{x - 2.5:.1f} {y - 6:.1f}v12m5 0v-12" stroke="{ink or INK}" stroke-width="2.4"/>'
    if what == "resume":
        return f'<path d="M{x - 3:.1f} {y - 5.5:.1f}l9 5.5l-9 5.5z" fill="{ink or INK}"/>'
    if what == "timer":
        return (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.6" fill="{PAPER}" stroke="{ink or SOFT}" stroke-width="1.3"/>'
            f'<path d="M{x:.1f} {y - 2.8:.1f}V{y:.1f}h2.4" stroke="{ink or SOFT}" stroke-width="1.1" fill="none"/>'
        )
    if what == "write":
        return f'<rect x="{x - 3:.1f}" y="{y + 2.5:.1f}" width="6" height="6" fill="{ink or COMPUTE}"/>'
    if what == "set_timer":
        return f'<path d="M{x:.1f} {y + 1:.1f}v5" stroke="{ink or QUIET}" stroke-width="1"/>'
    if what == "state":
        return (
            f'<path d="M{x:.1f} {y:.1f}v-15" stroke="{ink or FLAG_EDGE}" stroke-width="1.3"/>'
            f'<path d="M{x:.1f} {y - 15:.1f}l6 2.6l-6 2.6z" fill="{ink or FLAG_EDGE}"/>'
        )
    if what == "answer":
        return f'<path d="M{x - 4:.1f} {y - 2:.1f}h8l-4 -6z" fill="{ink or CLIENT}"/>'
    if what == "raised":
        rays = f"M{x - 7:.1f} {y:.1f}h14m-7 -7v14M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"
        return f'<path d="{rays}" stroke="{ink or INK}" stroke-width="1.8"/>'
    return f'<path d="M{x - 4:.1f} {y:.1f}l4 -4l4 4l-4 4z" fill="{ink or SOFT}"/>'


def label(sheet: Sheet) -> None:
    """The words of events: red ones and changes of state first, names of timers last."""
    order = {"raised": 0, "crash": 1, "state": 2, "answer": 3, "note": 4, "restart": 5, "timer": 6}
    noted = [(mark, x) for mark, x in sheet.noted if mark.event.what in order]
    for mark, x in sorted(noted, key=lambda pair: (not pair[0].red, order[pair[0].event.what])):
        _label(sheet, mark, x)


def _label(sheet: Sheet, mark: Mark, x: float) -> None:
    event, y, ink = mark.event, sheet.y(mark.event.node), BAD if mark.red else SOFT
    if event.what == "state":
        _flag(sheet, phrases.state(event.text), x, y, mark.red)
        return
    words = phrases.line(event.text, 30)
    if event.what == "raised":
        words = f"raised {words}"
    places = [
        (x + 6, y - 6, "start"), (x + 6, y + 13, "start"), (x - 6, y - 6, "end"), (x - 6, y + 13, "end"),
        (x, y + 20, "middle"), (x, y - 14, "middle"),
    ]  # fmt: skip
    if words and not sheet.write(words, places, 9.5, ink) and (mark.red or event.what in ("raised", "crash", "note")):
        sheet.write(words, places, 9.5, ink, over_lines=True)


def _flag(sheet: Sheet, words: str, x: float, y: float, red: bool) -> None:
    """The cloth of a flag with its words, to the right of its pole or else to the left."""
    ink, edge, ground = (BAD, BAD, PAPER) if red else (FLAG_INK, FLAG_EDGE, FLAG)
    shorter = [words, *dict.fromkeys(", ".join(words.split(", ")[:count]) for count in (2, 1))]
    for over_lines in (False, True):
        for told in shorter:
            wide = width(told, 9.5)
            for left, baseline in ((x + 3, y - 10), (x - wide - 3, y - 10), (x + 3, y - 23), (x + 3, y + 19)):
                box = extent(told, left, baseline, "start", 9.5)
                if box[2] > sheet.width - 3 or box[0] < sheet.left or box[1] < sheet.strip or box[3] > sheet.bottom:
                    continue
                if not sheet.room.free(box, over_lines):
                    continue
                sheet.room.take(box)
                pole = "" if baseline > y - 23 else f'<path d="M{x:.1f} {y:.1f}V{box[1]:.1f}" stroke="{edge}"/>'
                sheet.texts.append(
                    f'{pole}<rect x="{box[0] - 1:.1f}" y="{box[1]:.1f}" width="{wide + 6:.1f}" '
                    f'height="{box[3] - box[1]:.1f}" rx="2" fill="{ground}" stroke="{edge}" stroke-width="0.9"/>'
                    + text(left, baseline, told, 9.5, ink)
                )
                return


def operations(sheet: Sheet) -> Iterator[str]:
    """What clients asked, as bars from when they asked until they knew; open at the right where they never did."""
    following: dict[str, list[float]] = {}
    for operation in sheet.scene.operations:
        following.setdefault(operation.lane, []).append(operation.since)
    for operation in sheet.scene.operations:
        after = [at for at in following[operation.lane] if at > operation.since]
        yield part(_bar(sheet, operation, min(after, default=None)), _told(sheet, operation))


def _told(sheet: Sheet, operation: Operation) -> str:
    unit = sheet.scene.unit
    began = f"{phrases.line(operation.process, 40)}: {operation.full}; from {phrases.moment(operation.since, unit)}"
    if operation.until is None:
        return phrases.hover(f"{began}; never answered")
    ended = phrases.moment(operation.until, unit)
    how = {"info": f"given up at {ended}: nobody knows whether it happened"}.get(operation.ended, f"to {ended}")
    return phrases.hover(f"{began} {how}")


def _bar(sheet: Sheet, operation: Operation, after: float | None) -> Iterator[str]:
    y, left = sheet.y(operation.lane), sheet.x(operation.since)
    right = sheet.right if operation.until is None else sheet.x(operation.until)
    end = sheet.right if after is None else max(sheet.x(after) - 2, left + 3)
    right = max(min(right, end), left + 3)
    top = y - HALF
    ground = BAR_FAILED if operation.ended == "fail" else BAR
    if operation.ended in ("ok", "fail"):
        edge = SOFT if operation.ended == "fail" else BAR_EDGE
        yield (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{2 * HALF:g}" rx="2" '
            f'fill="{ground}" fill-opacity="0.88" stroke="{edge}"/>'
        )
    else:
        tail = min(end, right + 22)
        right = max(left + 2, min(right, tail - 8))
        yield (
            f'<path d="M{right:.1f} {top:.1f}H{left:.1f}v{2 * HALF:g}H{right:.1f}" fill="{ground}" '
            f'stroke="{BAR_EDGE}"/><path d="M{right:.1f} {top:.1f}H{tail:.1f}m0 {2 * HALF:g}H{right:.1f}" '
            f'fill="none" stroke="{BAR_EDGE}" stroke-dasharray="2 3"/>'
        )
        right = tail
    sheet.room.take((left, top, right, y + HALF))
    sheet.bars.append((operation, left, right))


def label_operations(sheet: Sheet) -> None:
    """The words of operations: in their bars where they fit, else below or above them."""
    inside = Room()
    for operation, left, right in sheet.bars:
        y, ink = sheet.y(operation.lane), "#4a3c80"
        box = extent(operation.label, (left + right) / 2, y + 3.6, "middle", 10)
        if box[2] - box[0] <= right - left - 2 and inside.free(box):
            inside.take(box)
            sheet.texts.append(text((left + right) / 2, y + 3.6, operation.label, 10, ink, "middle"))
            continue
        middle = (left + right) / 2
        rows = (y + 18, y - 10)
        places = [at for row in rows for at in ((middle, row, "middle"), (left, row, "start"), (right, row, "end"))]
        if not sheet.write(operation.label, places, 10, ink):
            shorter = fit(operation.label, 10, max(right - left - 4, 40))
            _ = sheet.write(operation.label, places, 10, ink, over_lines=True) or (
                bool(shorter) and sheet.write(shorter, places, 10, ink, over_lines=True)
            )


_WORDS: dict[What, str] = {
    "crash": "crashes", "restart": "restarts", "pause": "begins to stand still", "resume": "goes on",
    "timer": "timer goes off", "write": "writes to disk", "state": "changes its state", "answer": "answers a client",
    "raised": "raises an exception", "note": "note", "set_timer": "sets a timer",
}  # fmt: skip


def legend(scene: Scene) -> list[tuple[str, str]]:
    entries = []
    for what, words in _WORDS.items():
        mine = [mark for mark in scene.marks if mark.event.what == what]
        if any(not mark.pale for mark in mine):
            entries.append(
                (_sign(what, 11, 0 if what in ("state", "answer") else -9 if what == "write" else -4, ""), words)
            )
        elif mine:
            entries.append((f'<path d="M11 -8v7" stroke="{QUIET}"/>', words))
    if any(op.ended in ("ok", "fail") for op in scene.operations):
        entries.append((style.bar(BAR, BAR_EDGE), "operation of a client"))
    if any(op.ended in ("info", "") for op in scene.operations):
        sample = (
            f'<path d="M12 -12H4v14h8" fill="{BAR}" stroke="{BAR_EDGE}"/><path d="M12 -12h10m0 14h-10" fill="none" '
        )
        entries.append((sample + f'stroke="{BAR_EDGE}" stroke-dasharray="2 3"/>', "nobody knows whether it happened"))
    return entries
