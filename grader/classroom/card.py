"""The card of an exercise with full marks: one SVG with its points, its numbers, and the picture of a run.

It is light or dark as the page is that shows it.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from xml.etree import ElementTree

from grader import catalog, progress, registry
from grader.classroom import numbers
from grader.classroom.pages import figures, words
from grader.exercise import Exercise
from grader.submission import BadRequest
from grader.trace import dark, labels, style
from grader.verdict import CheckResult, Verdict

_WIDTH, _MARGIN = 760, 32
_ROOM = _WIDTH - 2 * _MARGIN
_MOST_ROWS = 8
_ROW, _CHECK = 46, 26  # pixels
_YOURS = 440  # where the column of numbers ends
_HIGHEST = 420  # of the picture
_READABLE = 0.55  # of its own size
_GOOD = "#1f5a3b"
_BOLD = ' font-weight="650"'


def card(exercise: str, by: str = "") -> str:
    """The card of the last verdict with full marks, as SVG. Raises BadRequest where there is none."""
    found = registry.find(exercise)
    full = progress.full(found.name)
    if full is None:
        best = progress.best().get(found.name)
        so_far = f"you have {best.points:g} of {best.max_points:g} points" if best else "you have not graded it yet"
        if best and best.points >= best.max_points:
            so_far = "yours are from before there were cards"
        raise BadRequest(f"the card of {found.name} is for full marks, and {so_far}: rankup grade {found.name}")
    return svg(found, *full, by)


def svg(exercise: Exercise, verdict: Verdict, when: datetime, by: str = "") -> str:
    """The card of a verdict; `by` is a name that stands on it."""
    head, top = list(_head(exercise, verdict, when, by)), 122.0
    body = list(_numbers(verdict, top) if any(check.measured for check in verdict.checks) else _checks(verdict, top))
    top += sum(height for height, _ in body)
    picture, high = _picture(verdict, top)
    height = top + high + 34
    told = f"Graded by rankup {importlib.metadata.version('rankup')}, seed {verdict.seed}"
    drawn = [*head, *(each for _, each in body), style.text(_MARGIN, height - 16, told, 11, style.SOFT)]
    title = f"{exercise.title}: {verdict.points:g} of {verdict.max_points:g} points"
    inner = style.document(_WIDTH, height, title, [_frame(height), *drawn])
    follows, stays = (picture, "") if picture and dark.follows(picture) else ("", picture)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {_WIDTH} {height:.0f}">\n<style>\n{dark.rules()}</style>\n'
        f'<g class="follows">\n{inner}{follows}</g>\n{stays}</svg>\n'
    )


def _frame(height: float) -> str:
    return (
        f'<rect x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1:.0f}" fill="none" '
        f'stroke="{style.GRID}"/><rect x="0" y="0" width="{_WIDTH}" height="5" fill="{_GOOD}"/>'
    )


def _head(exercise: Exercise, verdict: Verdict, when: datetime, by: str) -> Iterator[str]:
    chapter = next((each.title for each in catalog.chapters() if each.id == exercise.chapter), "")
    above = ", ".join(filter(None, (f"Chapter {exercise.chapter}", chapter)))
    yield style.text(_MARGIN, 38, labels.fit(above, 13, _ROOM - 150), 13, style.SOFT)
    yield style.text(_MARGIN, 70, labels.fit(exercise.title, 26, _ROOM - 150), 26, more=_BOLD)
    day = f"{when.astimezone():%d %B %Y}".lstrip("0")
    below = ", ".join(filter(None, (words.clean(by, 60), day)))
    yield style.text(_MARGIN, 94, below, 13, style.SOFT)
    yield style.text(_WIDTH - _MARGIN, 66, f"{verdict.points:g} / {verdict.max_points:g}", 34, _GOOD, "end", _BOLD)
    yield style.text(_WIDTH - _MARGIN, 94, "points", 13, style.SOFT, "end")


def _numbers(verdict: Verdict, top: float) -> Iterator[tuple[float, str]]:
    """Each row's height and what is drawn in it."""
    for row in list(numbers.rows(verdict.checks))[:_MOST_ROWS]:
        room = _YOURS - _MARGIN - 16
        what = labels.fit(row.what, 14, room - labels.width(row.yours, 15))
        where = labels.fit(row.where, 11, room - labels.width(row.allowed, 11))
        parts = [
            _line(top),
            style.text(_MARGIN, top + 20, what, 14),
            style.text(_MARGIN, top + 36, where, 11, style.SOFT),
            style.text(_YOURS, top + 20, row.yours, 15, "", "end", _BOLD),
            style.text(_YOURS, top + 36, row.allowed, 11, style.SOFT, "end"),
        ]
        remark = labels.wrap(row.remark, 13, _WIDTH - _MARGIN - _YOURS - 28, 2)
        middle = top + (28 if len(remark) == 1 else 20)
        parts += [
            style.text(_YOURS + 28, middle + 17 * number, each.strip(), 13, style.MESSAGE)
            for number, each in enumerate(remark)
        ]
        yield _ROW, "".join(parts)
        top += _ROW


def _checks(verdict: Verdict, top: float) -> Iterator[tuple[float, str]]:
    """The same of checks, where nothing was measured."""
    for check in verdict.checks:
        title = labels.fit(check.title, 14, _ROOM - 70)
        points = f"{check.points:g}"
        yield (
            _CHECK,
            _line(top)
            + style.text(_MARGIN, top + 18, "✓", 14, _GOOD, "", _BOLD)
            + style.text(_MARGIN + 22, top + 18, title, 14)
            + style.text(_WIDTH - _MARGIN, top + 18, points, 14, style.SOFT, "end"),
        )
        top += _CHECK


def _line(y: float) -> str:
    return f'<path d="M{_MARGIN} {y:.1f}H{_WIDTH - _MARGIN}" stroke="{style.GRID}"/>'


def kept(verdict: Verdict) -> Verdict:
    """The same, with the one picture that is on its card: the others are not even drawn."""
    telling, _ = _telling(verdict)
    return replace(
        verdict, checks=tuple(one if one is telling else replace(one, diagram=None) for one in verdict.checks)
    )


def _picture(verdict: Verdict, top: float) -> tuple[str, float]:
    """The picture of one of the runs, as large as there is room, and its height."""
    _, figure = _telling(verdict)
    if figure is None:
        return "", 0.0
    wide, high = _size(figure)
    scale = _scale(figure)
    place = {"x": _MARGIN + (_ROOM - wide * scale) / 2, "y": top + 14, "width": wide * scale, "height": high * scale}
    for name, value in place.items():
        figure.root.set(name, f"{value:.1f}")
    return ElementTree.tostring(figure.root, "unicode"), high * scale + 14


def _telling(verdict: Verdict) -> tuple[CheckResult | None, figures.Figure | None]:
    """The check with the best picture: one that can be read, of a run that has to do with the numbers, and large."""
    best: tuple[CheckResult | None, figures.Figure | None] = None, None
    for _, alike in groupby(sorted(verdict.checks, key=_told, reverse=True), _told):
        drawn = [(check, figure) for check in alike if (figure := figures.figure(check.diagram))]
        largest = max(drawn, key=lambda each: _scale(each[1]), default=None)
        if largest is not None and _scale(largest[1]) >= _READABLE:
            return largest
        best = largest if largest is not None and best[0] is None else best
    return best


def _told(check: CheckResult) -> int:
    return len(check.measured)


def _scale(figure: figures.Figure) -> float:
    wide, high = _size(figure)
    return min(_ROOM / wide, _HIGHEST / high, 1.0)


def _size(figure: figures.Figure) -> tuple[float, float]:
    wide, high = (float(figure.root.get(side, "1")) for side in ("width", "height"))
    return wide, high
