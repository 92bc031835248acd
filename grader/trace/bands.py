"""Collectives in a space-time diagram: a band across the group, from the first rank that joins to the end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from grader import says
from grader.trace import cards, style
from grader.trace.labels import fit, width
from grader.trace.paper import halo
from grader.trace.scene import NEVER, Band, Scene
from grader.trace.sheet import Sheet
from grader.trace.style import BAD, BAD_PALE, BAND, BAND_EDGE, BAND_INK, BAND_PALE

SIZES = 10.5, 9.0  # of letters; smaller ones rather than words across a lifeline
_CONNECTOR = 7.0  # height of what joins the parts of a group that is not contiguous


def draw(sheet: Sheet) -> Iterator[str]:
    bands = sheet.scene.bands
    shapes = [_shapes(sheet, band) for band in bands]
    for under, _ in shapes:  # all that wait lie under all that move
        yield under
    for band, (_, over) in zip(bands, shapes, strict=True):
        yield sheet.part(over, cards.collective(sheet.scene, band))


def joins(sheet: Sheet) -> Iterator[str]:
    """A dot where a rank joins."""
    for band in sheet.scene.bands:
        colour = BAD if band.mismatched else BAND_INK
        for rank, time in band.joined.items():
            yield (
                f'<circle cx="{sheet.x(rank):.1f}" cy="{sheet.y(time):.1f}" r="3.6" fill="{colour}" stroke="#ffffff" '
                f'stroke-width="0.8"/>'
            )


def label(sheet: Sheet) -> None:
    """Name each band where there is room: within it, else beside it."""
    for band in sheet.scene.bands:
        if band.mismatched:
            _label_mismatch(sheet, band)
            continue
        name, size = band.names[0], says.size(band.size) if band.size else ""
        runs = sorted(_runs(band), key=len, reverse=True)
        told = [
            (bool(size) and (_label(sheet, band, run, f"{name} {size}") or _two_lines(sheet, band, run, name, size)))
            or _label(sheet, band, run, name)
            for run in runs
        ]
        if not any(told):
            _shortened(sheet, band, runs[0], name)


def legend(scene: Scene) -> list[tuple[str, str]]:
    entries = []
    if any(not band.mismatched for band in scene.bands):
        entries.append((_sample(BAND, BAND_EDGE), "collective"))
    if any(set(range(min(band.group), max(band.group))) - set(band.group) for band in scene.bands):
        passing = f'<rect x="0" y="-8" width="22" height="{_CONNECTOR:g}" fill="{style.hatch("x")}"/>'
        entries.append((passing, "passes by a rank that takes no part"))
    if any(band.mismatched for band in scene.bands):
        entries.append((_sample(BAD_PALE, BAD), "not the same collective"))
    if any(band.missing for band in scene.bands):
        entries.append((_sample("none", BAD, ' stroke-dasharray="4 3"'), "never joined"))
    return entries


def _sample(fill: str, edge: str, more: str = "") -> str:
    return f'<rect x="0" y="-11" width="22" height="12" rx="3" fill="{fill}" stroke="{edge}"{more}/>'


def _reach(sheet: Sheet) -> float:
    """How far a band reaches to the side of a lifeline."""
    return min(sheet.column * 0.36, 40.0)


def _runs(band: Band) -> list[list[int]]:
    """The ranks that joined, in runs of neighbours that called the same."""
    called = {op.rank: op.kind for op in band.parts}
    runs: list[list[int]] = []
    for rank in sorted(band.joined):
        if runs and rank == runs[-1][-1] + 1 and called[rank] == called[runs[-1][-1]]:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return runs


def _shapes(sheet: Sheet, band: Band) -> tuple[str, str]:
    """What lies under other bands (the waiting for the last rank), and what lies over them."""
    top, start, end = sheet.y(band.since), sheet.y(min(band.moving, band.until)), sheet.y(band.until)
    reach = _reach(sheet)
    edge, pale = (BAD, BAD_PALE) if band.mismatched else (BAND_EDGE, BAND_PALE)
    under, over = [], []
    runs = _runs(band)
    for left, right in itertools.pairwise(runs):
        x1, x2 = sheet.x(left[-1]) + reach, sheet.x(right[0]) - reach
        passed = set(range(left[-1] + 1, right[0])) - set(band.group)
        if passed and not band.mismatched:
            middle, tall = _connector(sheet, band, start if band.moving != NEVER else top, end)
            under.append(
                f'<rect x="{x1:.1f}" y="{middle - tall / 2:.1f}" width="{x2 - x1:.1f}" height="{tall:.1f}" '
                f'fill="{style.hatch("x")}" stroke="{edge}" stroke-width="0.6"/>'
            )
    for run in runs:
        x1, x2 = sheet.x(run[0]) - reach, sheet.x(run[-1]) + reach
        if start > top + 0.5:
            under.append(_rect(x1, top, x2, start, pale, edge, ' stroke-dasharray="2 2" stroke-width="0.8"'))
        if end > start or band.moving == band.since:
            over.append(_rect(x1, start, x2, max(end, start + 2), BAND, edge, ' stroke-width="1"'))
    under += [
        _rect(sheet.x(rank) - reach, top, sheet.x(rank) + reach, end, "none", BAD,
              ' stroke-dasharray="4 3" stroke-width="1.2"')
        for rank in band.missing
    ]  # fmt: skip
    return "".join(under), "".join(over)


def _rect(x1: float, y1: float, x2: float, y2: float, fill: str, edge: str, more: str) -> str:
    place = f'x="{x1:.1f}" y="{y1:.1f}" width="{x2 - x1:.1f}" height="{y2 - y1:.1f}" rx="{min(4, (y2 - y1) / 2):.1f}"'
    return f'<rect {place} fill="{fill}" stroke="{edge}"{more}/>'


def _connector(sheet: Sheet, band: Band, top: float, bottom: float) -> tuple[float, float]:
    """Where a band passes by other ranks, apart from those of other groups at the same time: its middle, its height."""
    low, high = min(band.group), max(band.group)
    others = [
        other
        for other in sheet.scene.bands
        if other is band
        or (
            other.since < band.until and band.since < other.until and min(other.group) < high and low < max(other.group)
        )
    ]
    lane = next(at for at, other in enumerate(others) if other is band)
    step = min(_CONNECTOR + 3, (bottom - top) / len(others))
    tall = max(min(_CONNECTOR, step * 0.7), 1.5)
    return top + step * (lane + 0.5), tall


def _label(sheet: Sheet, band: Band, run: list[int], words: str) -> bool:
    ground = BAND if band.moving != NEVER else BAND_PALE
    start, end = sheet.y(min(band.moving, band.until)), sheet.y(band.until)
    if end - start < 13:
        start, ground = sheet.y(band.since), BAND_PALE
    x1, x2 = sheet.x(run[0]) - _reach(sheet), sheet.x(run[-1]) + _reach(sheet)
    gaps = sorted((sheet.x(rank + 0.5) for rank in run[:-1]), key=lambda x: abs(x - (x1 + x2) / 2))
    inside = (start + end) / 2 + 4
    around = halo(ground)
    if end - start >= 13:
        for size in SIZES:
            between = [(x, inside) for x in gaps] if width(words, size) < sheet.column - 14 else []
            if sheet.label(words, between, size, BAND_INK, halo=around):
                return True
        return width(words, SIZES[0]) < x2 - x1 and sheet.label(
            words, [((x1 + x2) / 2, inside)], SIZES[0], BAND_INK, over_lines=True, halo=around
        )
    beside = [(x, y) for x in gaps for y in (sheet.y(band.until) + 11, sheet.y(band.since) - 4)]
    return width(words, SIZES[0]) < sheet.column - 14 and sheet.label(words, beside, SIZES[0], BAND_INK)


def _shortened(sheet: Sheet, band: Band, run: list[int], name: str) -> None:
    """As much of the name as fits."""
    start, end = sheet.y(min(band.moving, band.until)), sheet.y(band.until)
    middle = (sheet.x(run[0]) + sheet.x(run[-1])) / 2
    short = fit(name, 10.5, sheet.x(run[-1]) - sheet.x(run[0]) + 2 * _reach(sheet) - 4)
    if end - start >= 13 and len(short) > 4:
        around = halo(BAND if band.moving != NEVER else BAND_PALE)
        sheet.label(short, [(middle, (start + end) / 2 + 4)], 10.5, BAND_INK, over_lines=True, halo=around)


def _two_lines(sheet: Sheet, band: Band, run: list[int], name: str, size: str) -> bool:
    """Name over bytes, in a band of one column."""
    start, end = sheet.y(min(band.moving, band.until)), sheet.y(band.until)
    middle = (sheet.x(run[0]) + sheet.x(run[-1])) / 2
    room = sheet.x(run[-1]) - sheet.x(run[0]) + 2 * _reach(sheet) - 4
    if end - start < 32 or width(name, 10.5) > room:
        return False
    y = (start + end) / 2
    around = halo(BAND if band.moving != NEVER else BAND_PALE)
    return sheet.label(name, [(middle, y - 2)], 10.5, BAND_INK, over_lines=True, halo=around) and sheet.label(
        size, [(middle, y + 12)], 10.5, BAND_INK, over_lines=True, halo=around
    )


def _label_mismatch(sheet: Sheet, band: Band) -> None:
    """Both names, each over the ranks that called it."""
    called = {op.rank: op.name for op in band.parts}
    around = halo(BAD_PALE)
    for run in _runs(band):
        middle = (sheet.x(run[0]) + sheet.x(run[-1])) / 2
        room = sheet.x(run[-1]) - sheet.x(run[0]) + sheet.column - 6
        words = fit(called[run[0]], 10.5, room)
        end = sheet.y(band.until)
        sheet.label(words, [(middle, end - 8), (middle, end - 22)], 10.5, BAD, over_lines=True, halo=around)
