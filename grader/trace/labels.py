"""Text in pictures: how wide it is, how it is shortened, and where there is room for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

_NARROW, _WIDE = set("iIl.,:;|!'()[]{}ftj -/"), set("mwMW@%—→≠µ")
Box = tuple[float, float, float, float]  # left, top, right, bottom
Segment = tuple[float, float, float, float]  # x1, y1, x2, y2
_CELL = 48.0  # obstacles are looked up by squares of this size


def width(text: str, size: float) -> float:
    """About how wide `text` is in a sans-serif face of `size` pixels; rather too wide than too narrow."""
    return _ems(text) * size


@lru_cache(maxsize=4096)
def _ems(text: str) -> float:
    return sum(_units(c) for c in text)


def _units(c: str) -> float:
    if c > "\u2e7f":  # Chinese, Japanese, Korean, emoji
        return 1.4 if c > "\uffff" else 1.05
    return 0.38 if c in _NARROW else 0.95 if c in _WIDE else 0.7 if c.isupper() else 0.61


def fit(text: str, size: float, room: float) -> str:
    """`text`, cut short with an ellipsis where it is wider than `room` pixels; "" where nothing sensible fits."""
    if width(text, size) <= room:
        return text
    while text and width(text + "…", size) > room:
        text = text[:-1]
    return text.rstrip() + "…" if len(text) > 2 else ""


def wrap(text: str, size: float, room: float, lines: int) -> list[str]:
    """`text` in at most `lines` lines of `room` pixels, broken at spaces and underscores, the last one cut short."""
    rows: list[str] = [""]
    for word in text.replace("_", "_\0").replace(" ", " \0").split("\0"):
        if rows[-1] and width((rows[-1] + word).rstrip(), size) > room and len(rows) < lines:
            rows.append("")
        rows[-1] += word
    return [fit(row.strip(), size, room) for row in rows if row.strip()]


class Room:
    """What is taken on a picture: boxes of text, which nothing may cross, and lines, which text should not cross."""

    def __init__(self) -> None:
        self._boxes: dict[tuple[int, int], list[Box]] = defaultdict(list)
        self._lines: dict[tuple[int, int], list[Segment]] = defaultdict(list)

    def take(self, box: Box) -> None:
        for cell in _cells(box):
            self._boxes[cell].append(box)

    def cross(self, line: Segment) -> None:
        x1, y1, x2, y2 = line
        for cell in _cells((min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))):
            self._lines[cell].append(line)

    def free(self, box: Box, over_lines: bool = False) -> bool:
        """Whether `box` meets no other box and, unless it may lie over them, no line."""
        for cell in _cells(box):
            if any(_meet(box, other) for other in self._boxes.get(cell, ())):
                return False
            if not over_lines and any(_crosses(box, line) for line in self._lines.get(cell, ())):
                return False
        return True


def _cells(box: Box) -> Iterator[tuple[int, int]]:
    for row in range(int(box[1] // _CELL), int(box[3] // _CELL) + 1):
        for column in range(int(box[0] // _CELL), int(box[2] // _CELL) + 1):
            yield column, row


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _crosses(box: Box, line: Segment) -> bool:
    """Whether a segment passes through a box (Liang and Barsky 1984)."""
    left, top, right, bottom = box
    x, y, dx, dy = line[0], line[1], line[2] - line[0], line[3] - line[1]
    enter, leave = 0.0, 1.0
    for move, space in ((-dx, x - left), (dx, right - x), (-dy, y - top), (dy, bottom - y)):
        if move == 0:
            if space < 0:
                return False
            continue
        share = space / move
        if move < 0:
            enter = max(enter, share)
        else:
            leave = min(leave, share)
    return enter <= leave
