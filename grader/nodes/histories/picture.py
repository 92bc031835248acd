"""The picture of a history: a row for each process, a bar for each operation from its call to its return.

On every bar that the checker could place, a point where it may have taken effect; reading the points from left to right
gives the order. What contradicts is red. Time runs to the right, long pauses are shortened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from grader.nodes.histories import words
from grader.nodes.histories.checker import Checked, points
from grader.nodes.histories.history import NEVER, Operation, Process, called
from grader.nodes.histories.view import View
from grader.nodes.histories.words import Clock
from grader.trace import style
from grader.trace.labels import fit, width, wrap
from grader.trace.paper import Axis, Heading, part
from grader.trace.story import Fault
from grader.trace.style import (
    BAD,
    BAD_PALE,
    BAND,
    BAND_EDGE,
    GRID,
    INK,
    LEGEND_ROW,
    MOVING,
    MOVING_EDGE,
    ODD,
    PAPER,
    QUIET,
    SOFT,
    WAIT,
    WAIT_PALE,
    text,
)

_ROW, _BAR, _RIGHT = 46.0, 20.0, 34.0
_NARROWEST, _WIDEST = 640.0, 2800.0
_STEP, _LEAST, _MOST = 17.0, 5.0, 78.0  # pixels between two events: on the average, at least, at most
_LANE = 17.0
_COLOURS = {"read": (MOVING, MOVING_EDGE), "cas": (WAIT_PALE, WAIT)}  # writing is violet
_NAMES = {"read": "read", "write": "write", "append": "append", "cas": "cas"}


def svg(checked: Checked, operations: Sequence[Operation], title: str, faults: Sequence[Fault] = ()) -> str:
    """The picture of a checked history, or of the part around its violation, as SVG text."""
    return _Sheet(checked, View.of(checked, operations, faults), title).svg()


def _axis(times: Sequence[float], left: float) -> Axis:
    """Events evenly apart, with a least and a greatest distance between two of them."""
    known = sorted(set(times))
    steps = [later - sooner for sooner, later in pairwise(known)]
    wanted = max(len(steps) * _STEP, _NARROWEST - left - _RIGHT)
    wanted = min(wanted, _WIDEST)
    low, high = _LEAST, max(_MOST, 2.5 * wanted / max(len(steps), 1))
    factor = wanted / sum(steps) if steps else 1.0
    for _ in range(12):  # what is cut off and filled up changes the sum: come near the wanted width
        total = sum(min(max(step * factor, low), high) for step in steps)
        factor *= wanted / total if total else 1.0
    places = [left]
    for step in steps:
        places.append(places[-1] + min(max(step * factor, low), high))
    return Axis(known, places)


class _Sheet:
    """One picture: its rows, its scale, and what was put where."""

    def __init__(self, checked: Checked, view: View, title: str) -> None:
        self.checked, self.view = checked, view
        self.clock = Clock.of(view.drawn)
        self.processes = _rows(view.drawn)
        self.left = max(30 + max(width(called(one), 12) for one in self.processes), 92.0)
        ends = [one.end for one in view.drawn if one.end != NEVER]
        last = max([*ends, *(one.start for one in view.drawn)])
        open_ = any(one.end == NEVER for one in view.drawn)
        times = [time for one in view.drawn for time in (one.start, one.end) if time != NEVER]
        self.scale = _axis(times, self.left)
        self.end = self.scale.at(last) + (26 if open_ else 0)
        self.width = max(self.end + _RIGHT, _NARROWEST)
        room = min(self.width, 1100.0) - 32
        subs = [row for line in (checked.reason or "", view.note) for row in wrap(line, 12, room, 4)]
        self.heading = Heading(wrap(title, 15.5, room, 2), subs)
        self.lanes = _lanes(view.faults, self.scale, self.end)
        self.top = 30 + self.heading.height + _LANE * (max(self.lanes, default=-1) + 1) + 10
        self.bottom = self.top + _ROW * len(self.processes)
        self.bad = {id(one) for one in checked.pair}
        self.points = self._points()

    def svg(self) -> str:
        rows = style.legend_rows(self._legend(), min(self.width, 1100.0) - 32)
        below = self.bottom + 46
        body = [*self._head(), *self._faults(), *self._axis(), *self._lines(), *self._bars(), *self._order()]
        body += style.legend(rows, 16, below)
        return style.document(self.width, below + LEGEND_ROW * len(rows) - 4, self.heading.heads[0], body)

    def y(self, process: Process) -> float:
        """The middle of its bars."""
        return self.top + _ROW * self.processes[process] + 29

    def _points(self) -> dict[int, float]:
        """By id of operation, where its point lies: in the order, and never two in one place where there is room."""
        drawn = {id(one) for one in self.view.drawn}
        moments = zip(points(self.checked.order), self.checked.order, strict=True)
        shown = [(time, one) for (time, _), one in moments if id(one) in drawn]
        latest, limit = [], self.end
        for _, one in reversed(shown):  # the last place of each that leaves the later ones theirs
            limit = min(limit, (self.scale.at(one.end) if one.end != NEVER else self.end) - 3)
            latest.append(limit)
        found, x = {}, 0.0
        for (time, one), most in zip(shown, reversed(latest), strict=True):
            x = max(min(max(self.scale.at(time) + 4, x + 4), most), self.scale.at(one.start))
            found[id(one)] = x
        return found

    def _head(self) -> list[str]:
        reason = self.checked.reason or ""
        return self.heading.draw([row for row in self.heading.subs if self.checked.valid is False and row in reason])

    def _faults(self) -> Iterator[str]:
        """Bands for what lasts, a dashed line and a cross for what happens at one moment."""
        base = self.top - _LANE * (max(self.lanes, default=-1) + 1)
        for fault, lane in zip(self.view.faults, self.lanes, strict=True):
            x, y = self.scale.at(fault.since), base + _LANE * lane
            if fault.until == fault.since:
                yield f'<path d="M{x:.1f} {y:.1f}V{self.bottom:.1f}" stroke="{ODD}" stroke-dasharray="4 3"/>'
                yield style.cross(x, y + 5, 4, ODD) + text(x + 8, y + 9, words.of_fault(fault), 11, ODD)
                continue
            end = self.end + 8 if fault.until == NEVER else self.scale.at(fault.until)
            yield (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(end - x, 2):.1f}" height="{self.bottom - y:.1f}" '
                f'fill="{WAIT_PALE}" fill-opacity="0.55" stroke="none"/>'
                f'<path d="M{x:.1f} {y:.1f}V{self.bottom:.1f}M{end:.1f} {y:.1f}V{self.bottom:.1f}" stroke="{WAIT}" '
                f'stroke-width="0.8"/>'
            )
            yield text(x + 5, y + 12, words.of_fault(fault), 11, ODD)

    def _axis(self) -> Iterator[str]:
        last = -99.0
        y = self.bottom + 14
        yield f'<path d="M{self.left:.1f} {self.bottom + 2:.1f}H{self.end + 8:.1f}" stroke="{QUIET}"/>'
        for time in self.scale.times:
            x, words_ = self.scale.at(time), self.clock.number(time)
            if x - last > max(56, width(words_, 11) + 14):
                yield f'<path d="M{x:.1f} {self.top:.1f}V{self.bottom + 2:.1f}" stroke="{GRID}"/>'
                yield text(x, y, words_, 11, SOFT, "middle")
                last = x
        yield text(16, y, f"time, {self.clock.unit}", 11, SOFT)

    def _lines(self) -> Iterator[str]:
        for process in self.processes:
            y = self.y(process)
            bad = any(one.process == process and one is self.checked.stuck for one in self.view.drawn)
            yield text(self.left - 14, y + 4, called(process), 12, BAD if bad else "", "end", ' font-weight="600"')
            yield f'<path d="M{self.left:.1f} {y:.1f}H{self.end + 8:.1f}" stroke="{GRID}"/>'

    def _bars(self) -> Iterator[str]:
        following: dict[int, float] = {}  # by id: where the next bar of its row begins
        nexts: dict[Process, float] = {}
        for one in reversed(self.view.drawn):
            following[id(one)] = nexts.get(one.process, self.end + 8)
            nexts[one.process] = self.scale.at(one.start)
        for one in self.view.drawn:
            yield self._bar(one, following[id(one)])

    def _bar(self, one: Operation, room: float) -> str:
        x, y = self.scale.at(one.start), self.y(one.process) - _BAR / 2
        open_ = one.end == NEVER
        end = max(x + 2, room - 3) if open_ else max(self.scale.at(one.end), x + 2)
        fill, stroke = _COLOURS.get(one.f, (BAND, BAND_EDGE))
        dashed = ""
        if one.status == "fail":
            fill, stroke, dashed = PAPER, QUIET, ' stroke-dasharray="3 3"'
        if id(one) in self.bad:
            fill, stroke = BAD_PALE, BAD
        thick = 1.8 if id(one) in self.bad else 0.9
        left, top, right, floor = x, y, end, y + _BAR
        if open_:  # no right edge, and dashed: nobody knows whether it happened, and when
            shape = (
                f'<path d="M{left:.1f} {top:.1f}H{right:.1f}V{floor:.1f}H{left:.1f}z" fill="{fill}" fill-opacity="0.5" '
                f'stroke="none"/><path d="M{right:.1f} {top:.1f}H{left:.1f}V{floor:.1f}H{right:.1f}" fill="none" '
                f'stroke="{stroke}" stroke-width="{thick}" stroke-dasharray="6 3"/>'
            )
        else:
            shape = (
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{_BAR:g}" rx="2" fill="{fill}" '
                f'stroke="{stroke}" stroke-width="{thick}"{dashed}/>'
            )
        colour = BAD if id(one) in self.bad else QUIET if one.status == "fail" else INK
        label = self._label(one, left, right, room, colour)
        said = f"{words.timed(one, self.clock)}: {words.outcome(one)}"
        return part(shape + label, said)

    def _label(self, one: Operation, left: float, right: float, room: float, colour: str) -> str:
        """In the bar if it fits there whole, else above it, as far as the next bar allows."""
        y = self.y(one.process)
        said = words.short(one) + (" failed" if one.status == "fail" else " ≠" if one.status == "unseen" else "")
        weight = ' font-weight="600"' if id(one) in self.bad else ""
        if 0.9 * width(said, 10.5) <= right - left - 4:
            if one.end == NEVER:
                return text(left + 6, y + 3.7, said, 10.5, colour, more=weight)
            return text((left + right) / 2, y + 3.7, said, 10.5, colour, "middle", weight)
        short = fit(said, 9.5, max(room - left - 4, 0) / 0.9)
        return text(left, y - _BAR / 2 - 3.5, short, 9.5, colour, more=weight) if short else ""

    def _order(self) -> Iterator[str]:
        """The points, and a thin line through them where there are few."""
        at = [(self.points[id(one)], self.y(one.process) + _BAR / 2 + 0.5) for one in self.checked.order
              if id(one) in self.points]  # fmt: skip
        if 1 < len(at) <= 60:
            way = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
            yield f'<path d="M{way}" fill="none" stroke="{QUIET}" stroke-width="0.8" stroke-opacity="0.7"/>'
        for x, y in at:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{INK}" stroke="{PAPER}" stroke-width="1"/>'

    def _legend(self) -> list[tuple[str, str]]:
        drawn = self.view.drawn
        used = {one.f for one in drawn}
        entries = [
            (style.bar(*_COLOURS.get(f, (BAND, BAND_EDGE))), words_) for f, words_ in _NAMES.items() if f in used
        ]
        if self.points:
            dot = f'<circle cx="11" cy="-4" r="3" fill="{INK}"/>'
            entries.append((dot, "may have taken effect here, in this order"))
        if any(id(one) in self.bad for one in drawn):
            entries.append((style.bar(BAD_PALE, BAD), "these contradict each other"))
        if any(one.end == NEVER for one in drawn):
            sample = f'<path d="M20 -12H4V2H20" fill="none" stroke="{QUIET}" stroke-dasharray="6 3"/>'
            entries.append((sample, "unknown whether it happened"))
        if any(one.status == "fail" for one in drawn):
            sample = (
                f'<rect x="4" y="-12" width="16" height="14" fill="{PAPER}" stroke="{QUIET}" stroke-dasharray="3 3"/>'
            )
            entries.append((sample, "failed: did not happen"))
        if any(fault.until != fault.since for fault in self.view.faults):
            entries.append((f'<rect x="4" y="-12" width="16" height="14" fill="{WAIT_PALE}"/>', "a fault"))
        return entries


def _rows(drawn: Sequence[Operation]) -> dict[Process, int]:
    """Each process's row: names in their order, numbers by size."""
    names = sorted({one.process for one in drawn}, key=lambda one: (isinstance(one, str), _natural(one)))
    return {name: row for row, name in enumerate(names)}


def _natural(process: Process) -> tuple[str, float]:
    """c2 before c10."""
    if isinstance(process, int):
        return "", process
    head = process.rstrip("0123456789")
    return head, float(process[len(head) :] or -1)


def _lanes(faults: Sequence[Fault], scale: Axis, end: float) -> list[int]:
    """For each fault the first line above the rows in which its words are free of others."""
    taken: list[float] = []
    lanes = []
    for fault in faults:
        x = scale.at(fault.since)
        lane = next((at for at, until in enumerate(taken) if until <= x), len(taken))
        until = x + 18 + width(words.of_fault(fault), 11)
        if fault.until != fault.since:
            until = max(until, end if fault.until == NEVER else scale.at(fault.until))
        taken[lane : lane + 1] = [until]
        lanes.append(lane)
    return lanes
