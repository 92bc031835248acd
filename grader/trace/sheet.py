"""The sheet a space-time diagram is drawn on: where ranks and times lie, what is taken, and what was put where."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from html import escape

from grader.trace import paper
from grader.trace.cards import Card
from grader.trace.labels import Box, fit, wrap
from grader.trace.paper import HALO, Axis, Heading, part
from grader.trace.scene import NEVER, Scene

LEFT, RIGHT, NARROWEST = 66, 26, 420
BAR = 4.5  # half of what the bars on a lifeline are wide
ROUND_PIXELS, STEP_PIXELS, TALLEST, LONGEST, LEAST_STEP = 46.0, 34.0, 900.0, 1500.0, 9.0
BREAK_PIXELS, MOST_BREAKS = 34.0, 8


class Sheet(paper.Sheet):
    """Ranks across, time down; below the last event a zone for what lasts for ever.

    `cards` collects what hovers over each part for the page; without it, each part carries a <title>.
    """

    def __init__(self, scene: Scene, title: str, subtitle: str, interactive: bool, zone: float, right: float) -> None:
        super().__init__()
        self.scene = scene
        n = scene.ranks
        self.column = float(max(56, min(150 if n <= 4 else 118, 944 // max(n, 1))))
        self.width = max(LEFT + self.column * n + right, NARROWEST)
        self.left = LEFT + (self.width - LEFT - right - self.column * n) / 2
        self.heading = Heading.of(title, subtitle, self.width)
        self.top = 52.0 + self.heading.height
        self.axis = _scale(scene, self.top + 4)
        self.bottom = self.axis.places[-1]
        self.floor = self.bottom + zone
        self.cards: list[Card] | None = [] if interactive else None

    def x(self, rank: float) -> float:
        return self.left + self.column * (rank + 0.5)

    def y(self, time: float) -> float:
        """Where `time` lies; what never happens lies on the floor."""
        return self.floor if time == NEVER else self.axis.at(time)

    def within(self) -> Box:
        return 2, -math.inf, self.width - 2, math.inf

    def part(self, shapes: Iterable[str] | str, card: Card) -> str:
        """Shapes that hover as one."""
        if self.cards is None:
            return part(shapes, card.title)
        inner = shapes if isinstance(shapes, str) else "".join(shapes)
        self.cards.append(card)
        return (
            f'<g class="i" data-i="{len(self.cards) - 1}" tabindex="-1" role="img" aria-label="{escape(card.title)}">'
            f"{inner}</g>"
        )

    def label(
        self, words: str, places: Iterable[tuple[float, float]], size: float, fill: str, anchor: str = "middle",
        over_lines: bool = False, halo: str = HALO,
    ) -> bool:  # fmt: skip
        """Write `words` at the first of `places` (x, baseline) that is free; False if none is."""
        return self.write(words, ((x, y, anchor) for x, y in places), size, fill, over_lines, halo)

    def rows(self, x: float, y: float, words: str, fill: str, lines: int = 2) -> None:
        """Centred text of a column's width in several lines."""
        for number, row in enumerate(wrap(words, 11, self.column - 6, lines)):
            self.label(row, [(x, y + 13 * number)], 11, fill, over_lines=True)

    def narrowed(self, words: str, size: float) -> str:
        return fit(words, size, self.column - 6)


def _scale(scene: Scene, top: float) -> Axis:
    end = scene.makespan
    if end <= 0:
        return Axis([0.0, 1.0], [top, top + 8])
    folds = [(fold.since, fold.until) for fold in scene.folds]
    if scene.unit.rounds:
        steps = end - sum(until - since for since, until in folds)
        natural = ROUND_PIXELS * steps
    else:
        counts = [0] * scene.ranks
        for found in scene.waits:
            counts[found.op.rank] += 1
        for stretch in scene.stretches:
            counts[stretch.span.rank] += 1
        steps = max(*counts, 6)
        natural = STEP_PIXELS * steps
    height = max(min(natural, TALLEST), min(LEAST_STEP * steps, LONGEST))
    breaks = sorted([*folds, *_breaks(scene, height)])
    shown = end - sum(until - since for since, until in breaks)
    pixels = max(height - BREAK_PIXELS * len(breaks), height / 2) / shown
    return Axis.torn(0.0, end, top, pixels, breaks, lambda _: BREAK_PIXELS)


def _breaks(scene: Scene, height: float) -> list[tuple[float, float]]:
    """Long stretches in which nothing begins or moves, where shortening them shows much more of the rest.

    One in which ranks wait is itself something to see, and shortened only where the rest is lost otherwise.
    """
    moments, folds = scene.moments(), [(fold.since, fold.until) for fold in scene.folds]
    gaps = [
        (since, until)
        for since, until in itertools.pairwise(moments)
        if until > since and not _meet((since, until), folds)
    ]
    busy = [(arrow.since, arrow.until) for arrow in scene.arrows] + [(b.moving, b.until) for b in scene.bands]
    waits = [(wait.since, wait.until) for wait in scene.waits]
    longest = sorted(gaps, key=lambda gap: gap[0] - gap[1])[:MOST_BREAKS]
    quiet = [gap for gap in longest if not _meet(gap, busy)]
    for count in range(1, len(quiet) + 1):
        gain = 8 if any(_meet(gap, waits) for gap in quiet[:count]) else 4
        rest = scene.makespan - sum(until - since for since, until in quiet[:count])
        if rest > 0 and (height - BREAK_PIXELS * count) / rest > gain * height / scene.makespan:
            following = quiet[count : count + 1]
            if not following or following[0][1] - following[0][0] < (quiet[count - 1][1] - quiet[count - 1][0]) / 3:
                return sorted(quiet[:count])
    return []


def _meet(gap: tuple[float, float], others: Iterable[tuple[float, float]]) -> bool:
    return any(since < gap[1] and until > gap[0] for since, until in others)
