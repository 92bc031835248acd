"""A picture in the cells of a terminal: its words as they are, its shapes as dots and blocks, on a dark ground."""

from __future__ import annotations

import io
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np
from rich.style import Style
from rich.text import Text

from grader.trace import dark, moments, style

WIDEST, NARROWEST = 9.0, 7.0  # pixels of a picture to a column: words overlap above, and are torn apart below
TALLEST, LOWEST = 19.0, 13.0  # pixels to a row
_DEEP, _WIDE = 4, 2  # dots of a cell, as in braille
_FINE = 3  # pixels to a dot, each way
_SEEN = 48  # between a dot and its ground, of 255 in one colour
_BRAILLE = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_BLOCKS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"  # by quarters: 1 upper left, 2 upper right, 4 lower left, 8 lower right
_HATCHED = {"w": style.WAIT, "x": style.BAND_PALE, "r": style.BAD, "g": style.QUIET}
_HEADS = "▶◀▼▲"
_HEAD = re.compile(r"M([\d.-]+) ([\d.-]+)L([\d.-]+) ([\d.-]+)L([\d.-]+) ([\d.-]+)z$")
_SVG = "{http://www.w3.org/2000/svg}"
Pixels = np.ndarray[Any, np.dtype[np.int16]]


@dataclass(frozen=True)
class _Word:
    """Words of the picture, and where their middle line and the place of their anchor are, in its pixels."""

    words: str
    x: float
    y: float
    anchor: str
    fill: str
    bold: bool = False
    legend: bool = False


def least(svg: str) -> int:
    """How many columns the picture needs."""
    return math.ceil(float(ElementTree.fromstring(svg).get("width", "0")) / WIDEST)


def text(svg: str, columns: int, rows: int) -> Text | None:
    """The picture in at most so many columns and rows; None where it would not be readable in so few."""
    svg = moments.still(svg)
    root = ElementTree.fromstring(svg)
    wide, tall = float(root.get("width", "0")), float(root.get("height", "0"))
    column = max(wide / columns, NARROWEST)
    row = max(tall / (rows - 1), LOWEST if wide else 0.0)
    if column > WIDEST or row > TALLEST or not wide * tall:
        return None
    words = sorted(_words(root, 0.0, 0.0), key=lambda word: word.words in _HEADS)
    moved = (row / 2 - max((word.y for word in words if word.legend), default=row / 2)) % row  # so it lies in rows
    columns, rows = math.ceil(wide / column), math.ceil((tall + moved) / row)
    root.set("viewBox", f"0 {-moved} {columns * column} {rows * row}")
    cells = _shapes(root, columns, rows)
    for word in words:
        _write(cells, word, column, row, moved)
    written = [at for at, line in enumerate(cells) if any(char != " " for char, *_ in line)]
    cells = cells[min(written, default=0) : max(written, default=0) + 1]
    lines = []
    for line in cells:
        runs = itertools.groupby(line, key=lambda cell: Style(color=cell[1] or None, bgcolor=cell[2], bold=cell[3]))
        lines.append(Text.assemble(*(("".join(char for char, *_ in run), look) for look, run in runs)))
    return Text("\n").join(lines)


Cell = tuple[str, str, str, bool]  # a character, its colour, its ground, whether it is bold


def _words(element: ElementTree.Element, x: float, y: float, legend: bool = False) -> Iterator[_Word]:
    """All words, and the heads of arrows as such."""
    moved = re.fullmatch(r"translate\(([-\d.]+)[ ,]([-\d.]+)\)", element.get("transform", ""))
    if moved:
        x, y, legend = x + float(moved[1]), y + float(moved[2]), True
    if element.tag == f"{_SVG}text":
        size = float(element.get("font-size", "11"))
        yield _Word(
            "".join(element.itertext()), x + float(element.get("x", "0")), y + float(element.get("y", "0")) - size / 3,
            element.get("text-anchor", "start"), element.get("fill", style.INK), "font-weight" in element.attrib,
            legend,
        )  # fmt: skip
    head = _HEAD.match(element.get("d", "")) if element.tag == f"{_SVG}path" else None
    if head:
        tip_x, tip_y, *sides = map(float, head.groups())
        back_x, back_y = tip_x - (sides[0] + sides[2]) / 2, tip_y - (sides[1] + sides[3]) / 2
        way = (back_x < 0) if abs(back_x) >= abs(back_y) / 2 else 2 + (back_y < 0)
        yield _Word(_HEADS[way], x + tip_x - back_x / 2, y + tip_y - back_y / 2, "middle", element.get("fill", ""))
    for child in element:
        yield from _words(child, x, y, legend)


def _shapes(root: ElementTree.Element, columns: int, rows: int) -> list[list[Cell]]:
    """All but the words."""
    import resvg_py
    from PIL import Image

    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{_SVG}text":
                parent.remove(child)
    size = columns * _WIDE * _FINE, rows * _DEEP * _FINE
    root.set("width", str(size[0]))
    root.set("height", str(size[1]))
    root.set("preserveAspectRatio", "none")
    flat = re.sub(r"url\(#\w*(\w)\)", lambda found: _HATCHED[found[1]], ElementTree.tostring(root, "unicode"))
    drawn = resvg_py.svg_to_bytes(svg_string=dark.svg(flat), skip_system_fonts=True)
    image = Image.open(io.BytesIO(drawn)).convert("RGB")
    pixels = np.asarray(image.resize(size), np.int16)
    split = pixels.reshape(rows, _DEEP * _FINE, columns, _WIDE * _FINE, 3).swapaxes(1, 2)
    plain = np.ptp(split, axis=(2, 3)).max(-1) < _SEEN
    return [
        [_plain(split[row, column]) if plain[row, column] else _cell(split[row, column]) for column in range(columns)]
        for row in range(rows)
    ]


def _plain(pixels: Pixels) -> Cell:
    return " ", "", _colour(pixels[0, 0]), False


def _cell(pixels: Pixels) -> Cell:
    """One cell of pixels: what most of it is, and on that what differs."""
    flat = pixels.reshape(-1, 3)
    ground = np.median(flat, axis=0).astype(np.int16)
    apart = np.abs(pixels - ground).max(-1)
    dots = apart.reshape(_DEEP, _FINE, _WIDE, _FINE).swapaxes(1, 2).reshape(_DEEP, _WIDE, -1)
    on = dots.max(-1) >= _SEEN
    if not on.any():
        return " ", "", _colour(ground), False
    ink = flat[apart.reshape(-1) >= max(apart.max() * 0.8, _SEEN)].mean(0)
    filled = (dots >= _SEEN).mean(-1)[on].mean() > 0.75
    quarters = on.reshape(2, 2, 2).all(1)
    solid = filled and (on.reshape(2, 2, 2).any(1) == quarters).all()
    char = _BLOCKS[int((quarters * [[1, 2], [4, 8]]).sum())] if solid else chr(0x2800 + int((_BRAILLE * on).sum()))
    return char, _colour(ink), _colour(ground), False


def _colour(of: np.ndarray[Any, Any]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*(int(part) for part in of))


def _write(cells: list[list[Cell]], word: _Word, column: float, row: float, moved: float) -> None:
    """Put words over the cells; where other words are already, they stay away."""
    length = len(word.words)
    at = round(word.x / column - length * {"middle": 0.5, "end": 1.0}.get(word.anchor, 0.0))
    line = int((word.y + moved) / row)
    at = min(max(at, 0), max(len(cells[0]) - length, 0))
    if not 0 <= line < len(cells):
        return
    over = cells[line][at : at + length]
    if any(char.isalnum() for char, *_ in over):
        return
    ink = dark.AFTER_DARK.get(word.fill, word.fill)
    for place, (char, (_, _, ground, _)) in enumerate(zip(word.words, over, strict=False), at):
        cells[line][place] = char, ink, ground, word.bold
