"""Messages in a space-time diagram: arrows and their sizes, what was never received, who waits for whom for ever."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from grader import says
from grader.trace import cards, style
from grader.trace.events import SEND, Operation
from grader.trace.labels import width
from grader.trace.scene import NEVER, Arrow, Scene
from grader.trace.sheet import BAR, Sheet
from grader.trace.style import BAD, MESSAGE, ODD

MANY = 300  # arrows beyond this are thin and carry no sizes
NOTE = 92  # the right margin, in pixels, where it says what every message of a round carries
LANE = 15  # pixels between the arrows of who waits for whom
_MOST_LANES = 9


def draw(sheet: Sheet) -> Iterator[str]:
    scene = sheet.scene
    many = len(scene.arrows) > MANY
    yield f'<g fill="none" stroke-width="{0.8 if many else 1.6}">'
    for arrow in scene.arrows:
        card = cards.message(scene, arrow)
        dash = "7 3" if arrow.delayed else ""
        bottom = sheet.y(arrow.until)
        colour = ODD if arrow.until == NEVER else MESSAGE
        shapes = _arrow(
            sheet, arrow.send.rank, arrow.recv.rank, sheet.y(arrow.since), bottom, colour, dash, 5 if many else 7
        )
        yield sheet.part(shapes, card)
    yield from _loose(sheet)
    yield from _for_ever(sheet)
    yield "</g>"


def label(sheet: Sheet) -> str:
    """Write sizes where they fit, or what messages hold, if that is known. Returns what the legend says of one."""
    scene = sheet.scene
    _name_edges(sheet)
    sizes = {arrow.send.size for arrow in scene.arrows}
    same = (
        f"message, {says.size(min(sizes))}{' each' if len(scene.arrows) > 1 else ''}" if len(sizes) == 1 else "message"
    )
    for arrow in scene.arrows:
        if arrow.delayed:
            late = scene.unit.lasted((arrow.delayed.until - arrow.delayed.since) / 1e9)
            words = f"{late} late"
            sheet.label(words, _along(sheet, arrow, words), 10, ODD) or sheet.label(
                words, _along(sheet, arrow, ""), 10, ODD, over_lines=True
            )
    if len(scene.arrows) > MANY:
        return same
    for arrow in scene.arrows if scene.trace.notes else ():
        words = scene.trace.notes.get((arrow.send.rank, arrow.send.number), ("", ""))[0]
        sheet.label(words, _along(sheet, arrow, words), 10, MESSAGE)
    if scene.trace.notes:
        return same
    taken = len(sheet.texts)
    alike = noted(scene)
    for (since, until), size in alike.items():
        y = (sheet.y(since) + sheet.y(until)) / 2 + 4
        sheet.label(f"{says.size(size)} each", [(sheet.width - 10, y)], 10, MESSAGE, "end")
    fits = []
    for arrow in scene.arrows:
        if not arrow.delayed and (arrow.since, arrow.until) not in alike:
            words = says.size(arrow.send.size)
            fits.append(sheet.label(words, _along(sheet, arrow, words), 10, MESSAGE))
    if len(sizes) == 1 and (not all(fits) or len(fits) > 24):
        del sheet.texts[taken:]  # all or none: the legend says it for all
        return same
    return "message" if len(sheet.texts) > taken else same


def _name_edges(sheet: Sheet) -> None:
    """Where an arrow leaves at one edge and comes in at the other: where to, and where from. Of messages the first."""
    scene, lane = sheet.scene, _lanes(sheet.scene)
    closing = [arrow for arrow in scene.arrows if _closes_ring(scene, arrow.send.rank, arrow.recv.rank)]
    for arrow in closing[:1]:
        y = (sheet.y(arrow.since) + sheet.y(arrow.until)) / 2
        _name_edge(sheet, arrow.send.rank, arrow.recv.rank, MESSAGE, 1.0, y + 4)
    for op in _waiting_for(scene):
        if _closes_ring(scene, op.rank, op.peer):
            colour = BAD if op.rank in scene.cycle else ODD
            _name_edge(sheet, op.rank, op.peer, colour, 0.5, sheet.bottom + 10 + LANE * lane[id(op)])


def _name_edge(sheet: Sheet, source: int, target: int, colour: str, share: float, y: float) -> None:
    """`share` of the arrow's reach from the lifelines: at its ends, or above its middle."""
    right = source > target
    reach = sheet.column * 0.42 * share * (1 if right else -1)
    out, back = (f"→ {target}", f"{source} →") if right else (f"{target} ←", f"← {source}")
    for x, words, leftwards in ((sheet.x(source) + reach, out, not right), (sheet.x(target) - reach, back, right)):
        place = (x, y, "middle") if share < 1 else (x - 3, y, "end") if leftwards else (x + 3, y, "start")
        sheet.write(words, [place], 10, colour, over_lines=True)


def noted(scene: Scene) -> dict[tuple[float, float], int]:
    """Where sizes differ from round to round: the stretches in which three or more messages carry the same."""
    if len(scene.arrows) > MANY or len({arrow.send.size for arrow in scene.arrows}) == 1:
        return {}
    together: dict[tuple[float, float], list[int]] = defaultdict(list)
    for arrow in scene.arrows:
        if arrow.until != NEVER:
            together[arrow.since, arrow.until].append(arrow.send.size)
    return {when: sizes[0] for when, sizes in together.items() if len(sizes) > 2 and len(set(sizes)) == 1}


def legend(scene: Scene) -> list[tuple[str, str]]:
    never = any(found.op is not None and found.op.kind == SEND and not found.dropped for found in scene.loose)
    return [(_stub(0, -7, 1, 18), "never received")] if never else []


def lanes(scene: Scene) -> int:
    """How many arrows of who waits for whom lie above one another."""
    return max(_lanes(scene).values(), default=0) + 1


def _waiting_for(scene: Scene) -> list[Operation]:
    return [wait.op for wait in scene.stuck if wait.op.peer >= 0 and not wait.op.collective]


def _lanes(scene: Scene) -> dict[int, int]:
    """By operation, the lane of its arrow, so that no two lie over each other."""
    taken: list[list[tuple[float, float]]] = []
    found: dict[int, int] = {}
    for op in sorted(_waiting_for(scene), key=lambda op: (abs(op.rank - op.peer), op.rank)):
        low, high = sorted((op.rank, op.peer))
        pieces: list[tuple[float, float]] = [(low, high)]
        if _closes_ring(scene, op.rank, op.peer):
            pieces = [(low - 1.0, low), (high, high + 1.0)]
        for number in range(_MOST_LANES):
            if number == len(taken):
                taken.append([])
            if number == _MOST_LANES - 1 or not any(
                left < end and start < right for left, right in taken[number] for start, end in pieces
            ):
                taken[number] += pieces
                found[id(op)] = number
                break
    return found


def _closes_ring(scene: Scene, source: int, target: int) -> bool:
    """Whether the arrow leaves at one edge and comes in at the other: every rank talks to its right, or its left."""
    n = scene.ranks
    if n <= 2 or abs(source - target) != n - 1:
        return False
    return (target - source) % n in scene.ring_steps


def _line(x1: float, y1: float, x2: float, y2: float, style_: str) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" {style_}/>'


def _arrow(
    sheet: Sheet, source: int, target: int, top: float, bottom: float, colour: str, dash: str = "", size: float = 7
) -> list[str]:
    look = f'stroke="{colour}"' + (f' stroke-dasharray="{dash}"' if dash else "")
    x1, x2 = sheet.x(source), sheet.x(target)
    if _closes_ring(sheet.scene, source, target):
        reach = sheet.column * 0.42 * (1 if source > target else -1)
        middle = (top + bottom) / 2
        end = x2 - (BAR if reach > 0 else -BAR)
        sheet.room.cross((x1, top, x1 + reach, middle))
        sheet.room.cross((x2 - reach, middle, end, bottom))
        return [
            _line(x1, top, x1 + reach, middle, look),
            _line(x2 - reach, middle, end, bottom, look),
            style.head(end, bottom, end - x2 + reach, bottom - middle, colour, size),
        ]
    end = x2 - (BAR if x2 > x1 else -BAR)
    sheet.room.cross((x1, top, end, bottom))
    return [_line(x1, top, end, bottom, look), style.head(end, bottom, end - x1, bottom - top, colour, size)]


def _along(sheet: Sheet, arrow: Arrow, words: str) -> list[tuple[float, float]]:
    """Places for a word beside an arrow, the best first."""
    top, bottom = sheet.y(arrow.since), sheet.y(arrow.until)
    source, target = arrow.send.rank, arrow.recv.rank
    x1, x2 = sheet.x(source), sheet.x(target)
    if _closes_ring(sheet.scene, source, target):
        reach = sheet.column * 0.42 * (1 if source > target else -1)
        tilt = abs(bottom - top) / 2 / abs(reach) * (width(words, 10) / 2 + 1)
        return [
            (x1 + reach * 0.62, (top * 3 + bottom) / 4 - 8), (x2 - reach * 0.62, (top + bottom * 3) / 4 + 12),
            (x1 + reach * 0.7, top + 0.35 * (bottom - top) - 5 - tilt),
            (x2 - reach * 0.7, bottom - 0.35 * (bottom - top) + 12 + tilt),
        ]  # fmt: skip
    gaps = abs(target - source)
    places = []
    for gap in sorted(range(gaps), key=lambda gap: abs(gap + 0.5 - gaps / 2)):
        share = (gap + 0.5) / gaps
        x, y = x1 + (x2 - x1) * share, top + (bottom - top) * share
        tilt = abs(bottom - top) / max(abs(x2 - x1), 1) * (width(words, 10) / 2 + 1)  # clear of it at the word's end
        places += [(x, y - 5 - tilt), (x, y + 12 + tilt)]
    return places


def _stub(x: float, y: float, way: int, reach: float) -> str:
    end = x + way * reach
    return (
        f'<path d="M{x:.1f} {y:.1f}L{end:.1f} {y + 7:.1f}" stroke="{ODD}" stroke-width="1.6" stroke-dasharray="3 2.5" '
        f'fill="none"/><circle cx="{end + 2.6 * way:.1f}" cy="{y + 7.5:.1f}" r="2.6" fill="none" stroke="{ODD}" '
        f'stroke-width="1.3"/>'
    )


def _loose(sheet: Sheet) -> Iterator[str]:
    """Short dashed stubs of what was sent and never received; arrows that end in a cross for what was lost."""
    scene = sheet.scene
    at: Counter[tuple[int, int, int]] = Counter()
    for found in scene.loose:
        card = cards.loose(scene, found)
        x, y, way = sheet.x(found.rank), sheet.y(found.at), 1 if found.peer > found.rank else -1
        if found.dropped:
            target = sheet.x(found.peer)
            bottom = max(sheet.y(found.until), y + 8)
            end, fall = x + (target - x) * 0.7, y + (bottom - y) * 0.7
            sheet.room.cross((x, y, end, fall))
            yield sheet.part(_line(x, y, end, fall, f'stroke="{BAD}"') + style.cross(end, fall, 5), card)
            sheet.label("lost", [(end + 22 * way, fall + 4), (end, fall + 18), (end, fall - 9)], 10, BAD)
        elif found.op is not None and found.op.kind == SEND:
            y += 9 * at[found.rank, way, round(y)]
            at[found.rank, way, round(sheet.y(found.at))] += 1
            sheet.room.cross((x, y, x + way * 29, y + 7))
            yield sheet.part(_stub(x, y, way, 22), card)
            where = x + way * 32
            sheet.label("never received", [(where, y + 12)], 10, ODD, "start" if way > 0 else "end")


def _for_ever(sheet: Sheet) -> Iterator[str]:
    """What each rank waits for, for ever, as a dashed arrow to the rank it waits for."""
    scene = sheet.scene
    lane = _lanes(scene)
    waits = {id(wait.op): wait for wait in scene.stuck}
    for op in _waiting_for(scene):
        y = sheet.bottom + 15 + LANE * lane[id(op)]
        colour = BAD if op.rank in scene.cycle else ODD
        shapes = _arrow(sheet, op.rank, op.peer, y, y, colour, "4 3")
        yield sheet.part(shapes, cards.wait(scene, waits[id(op)]))
