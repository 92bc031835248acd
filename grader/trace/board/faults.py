"""Faults in the picture of a story: partitions and bad links as tinted bands, nodes that are down or stand still."""

from __future__ import annotations

from collections.abc import Iterator

from grader.trace import style
from grader.trace.board import phrases
from grader.trace.board.scene import Scene
from grader.trace.board.sheet import STRIP, Sheet
from grader.trace.labels import fit, width
from grader.trace.paper import part
from grader.trace.story import Fault
from grader.trace.style import INK, PAPER, SOFT, WAIT, WAIT_PALE, text

TINTS = ("#dbe9fb", "#fbeecb", "#d9efe2", "#ebe3f6", "#e3e7ec")  # of the parts of a partition, in order
EDGES = ("#5b8fd0", "#c99a2e", "#5aa27c", "#8f74c4", "#8b96a3")
_SIZE = 10.5


def rows(sheet: Sheet) -> list[int]:
    """For each band, the row above the lanes in which it is named; rows are shared where no two names meet."""
    ends: list[list[tuple[float, float]]] = []
    found = []
    for band in sheet.scene.bands:
        left, right = _ends(sheet, band)
        wide = _wide(sheet, band)
        begin = min(left, _begin(sheet, left, wide))
        stretch = (begin - 6, max(right, begin + wide) + 6)
        row = next((at for at, taken in enumerate(ends) if not _meet(stretch, taken)), len(ends))
        if row == len(ends):
            ends.append([])
        ends[row].append(stretch)
        found.append(row)
    return found


def _meet(stretch: tuple[float, float], taken: list[tuple[float, float]]) -> bool:
    return any(stretch[0] < end and begin < stretch[1] for begin, end in taken)


def _ends(sheet: Sheet, band: Fault) -> tuple[float, float]:
    left = sheet.x(band.since)
    return left, max(sheet.x(min(band.until, sheet.scene.until)), left + 3)


def draw(sheet: Sheet, strip: list[int]) -> Iterator[str]:
    """The bands, below all else."""
    scene = sheet.scene
    if not scene.lanes:
        return
    for number, band in enumerate(scene.bands):
        left, right = _ends(sheet, band)
        title = phrases.of_fault(band, scene.lanes, scene.unit, min(band.until, scene.until))
        shapes = list(_parted(sheet, band, left, right) if is_parted(band)
                      else _pale(sheet, band, left, right))  # fmt: skip
        shapes += _named(sheet, band, left, right, sheet.strip + STRIP * strip[number])
        yield part(shapes, title)


def is_parted(band: Fault) -> bool:
    """Whether a fault cuts the nodes into parts that cannot reach each other."""
    return band.what == "partition" and len(band.groups) > 1


def side(scene: Scene, band: Fault, lane: str) -> int:
    """The number of the part of a partition in which a lane is; -1 where it is in none."""
    return next((number for number, group in enumerate(band.groups) if lane in group), -1)


def edges(sheet: Sheet, band: Fault) -> list[float]:
    """The heights at which one part of a partition ends and another begins."""
    found, last = [], ""
    for lane in sheet.scene.lanes:
        if side(sheet.scene, band, lane) < 0:
            continue
        if last and side(sheet.scene, band, last) != side(sheet.scene, band, lane):
            found.append((sheet.y(last) + sheet.y(lane)) / 2)
        last = lane
    return found


def _parted(sheet: Sheet, band: Fault, left: float, right: float) -> Iterator[str]:
    """Each part in a tint of its own with a bracket at its left end, dashed lines between them."""
    scene = sheet.scene
    runs: list[tuple[int, float, float]] = []
    for lane in scene.lanes:
        number = side(scene, band, lane)
        if number < 0:
            continue
        top, bottom = sheet.band(lane)
        if runs and runs[-1][0] == number and abs(runs[-1][2] - top) < 0.1:
            runs[-1] = (number, runs[-1][1], bottom)
        else:
            runs.append((number, top, bottom))
    for number, top, bottom in runs:
        tint, edge = TINTS[number % len(TINTS)], EDGES[number % len(EDGES)]
        yield (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" fill="{tint}" '
            f'fill-opacity="0.62"/><path d="M{left + 5:.1f} {top + 5:.1f}H{left + 1.2:.1f}V{bottom - 5:.1f}h3.8" '
            f'fill="none" stroke="{edge}" stroke-width="2.2"/>'
        )
    for y in edges(sheet, band):
        yield f'<path d="M{left:.1f} {y:.1f}H{right:.1f}" stroke="{SOFT}" stroke-width="1.2" stroke-dasharray="5 3"/>'


def _pale(sheet: Sheet, band: Fault, left: float, right: float) -> Iterator[str]:
    """A pale band over the lanes that it is about, over all where it names none."""
    scene = sheet.scene
    about = {node for group in band.groups for node in group} | {node for pair in band.pairs for node in pair}
    for lane in scene.lanes:
        if lane in about or (not about and lane not in scene.clients):
            top, bottom = sheet.band(lane)
            yield (
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" '
                f'fill="{WAIT_PALE}" fill-opacity="0.6"/>'
            )


def _named(sheet: Sheet, band: Fault, left: float, right: float, top: float) -> Iterator[str]:
    """A brace over the band's time, and its name."""
    parted = is_parted(band)
    colour = SOFT if parted else WAIT
    yield (
        f'<path d="M{left:.1f} {top + 15:.1f}V{top + 11.5:.1f}H{right:.1f}v3.5" fill="none" stroke="{colour}" '
        f'stroke-width="1.4"/>'
    )
    x = _begin(sheet, left, _wide(sheet, band))
    name, told = _words(sheet, band)
    yield text(x, top + 8.5, name, _SIZE, SOFT)
    x += width(name, _SIZE) + 4
    for words, edge in told:
        yield f'<rect x="{x:.1f}" y="{top + 1:.1f}" width="8" height="8" fill="{edge}"/>'
        yield text(x + 11, top + 8.5, words, _SIZE, SOFT)
        x += width(words, _SIZE) + 20


def _words(sheet: Sheet, band: Fault) -> tuple[str, list[tuple[str, str]]]:
    """A fault's name, and of a partition its parts with their colours, as many as fit."""
    lanes, room = sheet.scene.lanes, sheet.width - 10 - sheet.left
    if not is_parted(band):
        return fit(phrases.fault(band, lanes), _SIZE, room), []
    name = phrases.line(band.text, 40) or "partition"
    room -= width(name, _SIZE) + 4
    told = []
    for number, group in enumerate(group for group in band.groups if group):
        words = fit(phrases.names(group, lanes), _SIZE, 240)
        room -= width(words, _SIZE) + 20
        if room > 0:
            told.append((words, EDGES[number % len(EDGES)]))
    return name, told


def _wide(sheet: Sheet, band: Fault) -> float:
    name, told = _words(sheet, band)
    return width(name, _SIZE) + 4 + sum(width(words, _SIZE) + 20 for words, _ in told)


def _begin(sheet: Sheet, left: float, wide: float) -> float:
    return max(min(left, sheet.width - 8 - wide), 8.0)


def absences(sheet: Sheet) -> Iterator[str]:
    """Over the lanes: no line where a node is down, a hatched bar where it stands still."""
    for gone in sheet.scene.absences:
        left, right, y = sheet.x(gone.since), sheet.x(gone.until), sheet.y(gone.node)
        right = max(right, left + 2)
        words = f"{phrases.line(gone.node, 60)} {'is down' if gone.what == 'down' else 'stands still'}"
        unit = sheet.scene.unit
        title = f"{words}; from {phrases.moment(gone.since, unit)} to {phrases.moment(gone.until, unit)}"
        if gone.what == "down":
            shape = (
                f'<rect x="{left:.1f}" y="{y - 5:.1f}" width="{right - left:.1f}" height="10" fill="{PAPER}"/>'
                f'<rect x="{left:.1f}" y="{y - 5:.1f}" width="{right - left:.1f}" height="10" '
                f'fill="{style.hatch("g")}" fill-opacity="0.75"/>'
            )
        else:
            shape = (
                f'<rect x="{left:.1f}" y="{y - 5:.1f}" width="{right - left:.1f}" height="10" '
                f'fill="{style.hatch("g")}" stroke="{SOFT}" stroke-width="0.9"/>'
                f'<path d="M{left:.1f} {y:.1f}H{right:.1f}" stroke="{INK}" stroke-width="1.2"/>'
            )
        yield part(shape, title)


def legend(scene: Scene) -> list[tuple[str, str]]:
    entries = []
    if any(gone.what == "down" for gone in scene.absences):
        entries.append((f'<rect y="-9" width="22" height="10" fill="{style.hatch("g")}" fill-opacity="0.75"/>', "down"))
    if any(gone.what == "pause" for gone in scene.absences):
        sample = (
            f'<rect y="-9" width="22" height="10" fill="{style.hatch("g")}" stroke="{SOFT}" stroke-width="0.9"/>'
            f'<path d="M0 -4h22" stroke="{INK}" stroke-width="1.2"/>'
        )
        entries.append((sample, "stands still"))
    if any(is_parted(band) for band in scene.bands):
        sample = (
            f'<rect y="-13" width="22" height="8" fill="{TINTS[0]}"/><rect y="-5" width="22" height="8" '
            f'fill="{TINTS[1]}"/><path d="M0 -5h22" stroke="{SOFT}" stroke-width="1.2" stroke-dasharray="5 3"/>'
        )
        entries.append((sample, "nothing passes between the parts"))
    if any(not is_parted(band) for band in scene.bands):
        sample = f'<rect y="-12" width="22" height="14" fill="{WAIT_PALE}"/><path d="M0 -12h22" stroke="{WAIT}"/>'
        entries.append((sample, "bad links"))
    return entries
