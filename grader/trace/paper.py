"""What every picture is drawn with: a heading, an axis of time with tears, words where there is room for them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from grader.trace.labels import Box, Room, width, wrap
from grader.trace.style import BAD, PAPER, QUIET, SOFT, text

HALO = ' stroke="#ffffff" stroke-width="3" stroke-linejoin="round" paint-order="stroke"'
Place = tuple[float, float, str]  # x, baseline, anchor
Span = tuple[float, float]


@dataclass(frozen=True)
class Heading:
    """A title and what stands under it, in rows."""

    heads: Sequence[str]
    subs: Sequence[str]

    @classmethod
    def of(cls, title: str, subtitle: str, wide: float) -> Heading:
        """For a picture of so many pixels."""
        return cls(wrap(title, 15.5, wide - 32, 2), wrap(subtitle, 12, wide - 32, 3))

    @property
    def height(self) -> float:
        return 20.0 * len(self.heads) + 17 * len(self.subs)

    def draw(self, bad: Collection[str] = ()) -> list[str]:
        """Both; those of `bad` in red."""
        top = 27 + 20 * len(self.heads)
        return [
            *(text(16, 27 + 20 * at, row, 15.5, more=' font-weight="600"') for at, row in enumerate(self.heads)),
            *(text(16, top + 17 * at, row, 12, BAD if row in bad else SOFT) for at, row in enumerate(self.subs)),
        ]


@dataclass(frozen=True)
class Axis:
    """Times, in order, and where they lie, in pixels; `tears` are stretches that are drawn shortened."""

    times: Sequence[float]
    places: Sequence[float]
    tears: Sequence[Span] = ()

    @classmethod
    def torn(
        cls, since: float, until: float, begin: float, pixels: float, tears: Iterable[Span],
        room: Callable[[float], float],
    ) -> Axis:  # fmt: skip
        """From `since`, at `begin`, to `until`, in proportion but for `tears`: of these each gets the `room` that its
        length is worth."""
        times, places = [since], [begin]
        found = tuple(sorted(tears))
        for start, end in found:
            if start > times[-1]:
                places.append(places[-1] + (start - times[-1]) * pixels)
                times.append(start)
            places.append(places[-1] + room(end - start))
            times.append(end)
        if until > times[-1]:
            places.append(places[-1] + (until - times[-1]) * pixels)
            times.append(until)
        return cls(times, places, found)

    def at(self, time: float) -> float:
        """Where a time lies; what is outside lies at the end that is nearer."""
        place = min(max(bisect_right(self.times, time), 1), len(self.times) - 1)
        since, until = self.times[place - 1], self.times[place]
        share = (time - since) / (until - since) if until > since else 0.0
        return self.places[place - 1] + (self.places[place] - self.places[place - 1]) * min(max(share, 0.0), 1.0)

    def pieces(self) -> Iterable[tuple[Span, float]]:
        """The stretches that are not torn, with the pixels of each."""
        for at in range(len(self.times) - 1):
            span = self.times[at], self.times[at + 1]
            if span not in self.tears and span[1] > span[0]:
                yield span, self.places[at + 1] - self.places[at]


class Sheet:
    """Where words lie, so that none lies on another. `within` are the borders for words."""

    def __init__(self) -> None:
        self.room = Room()
        self.texts: list[str] = []

    def within(self) -> Box:
        raise NotImplementedError

    def write(
        self, words: str, places: Iterable[Place], size: float, fill: str, over_lines: bool = False, halo: str = HALO
    ) -> bool:
        """Write `words` at the first of `places` that is free; False if none is."""
        left, top, right, bottom = self.within()
        for x, y, anchor in places:
            box = extent(words, x, y, anchor, size)
            if box[0] < left or box[1] < top or box[2] > right or box[3] > bottom:
                continue
            if self.room.free(box, over_lines):
                self.room.take(box)
                self.texts.append(text(x, y, words, size, fill, anchor, halo))
                return True
        return False


def extent(words: str, x: float, y: float, anchor: str, size: float) -> Box:
    """The box that a text fills, about."""
    wide = width(words, size)
    left = x - wide * {"middle": 0.5, "end": 1.0}.get(anchor, 0.0)
    return (left - 2, y - size * 0.84, left + wide + 2, y + size * 0.28)


def part(shapes: Iterable[str] | str, title: str) -> str:
    """Shapes that hover as one."""
    inner = shapes if isinstance(shapes, str) else "".join(shapes)
    return f"<g>{inner}<title>{escape(title)}</title></g>"


def tear(middle: float, begin: float, end: float, upright: bool) -> str:
    """A white tear across a picture, where time is left out."""
    wave = ("q-4 3.5 0 7t0 7" if upright else "q3.5 -4 7 0t7 0") * max(int((end - begin) / 14), 1)

    def start(aside: float) -> str:
        return f"M{middle + aside:.1f} {begin:.1f}" if upright else f"M{begin:.1f} {middle + aside:.1f}"

    return (
        f'<path d="{start(0)}{wave}" stroke="{PAPER}" stroke-width="7" fill="none"/>'
        f'<path d="{start(-3)}{wave}{start(3)}{wave}" stroke="{QUIET}" stroke-width="0.8" fill="none"/>'
    )
