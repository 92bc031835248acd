"""The look of every picture: colours that hold in print and for the colour-blind, hatches, arrow heads, legends.

Blue moves, orange waits, dark grey computes, violet is a collective; red is for what is wrong, and for nothing else.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from html import escape

from grader.trace.labels import width

INK, SOFT, QUIET, GRID, PALE, PAPER = "#1f2933", "#52606d", "#9aa5b1", "#e7ebef", "#f4f6f8", "#ffffff"
MESSAGE, MOVING, MOVING_EDGE = "#1f5fbf", "#d3e2f8", "#86a9de"
WAIT, WAIT_PALE, COMPUTE = "#e08a00", "#fdf0d5", "#475569"
BAND, BAND_PALE, BAND_EDGE, BAND_INK = "#e2d9f3", "#f5f2fb", "#8467b8", "#4b3780"
BAD, BAD_PALE, ODD = "#c81e1e", "#fbdcdc", "#8a4b00"  # ODD: slow or late, which is no error
# what a model's pass is drawn in, by the first letter of its name: forward, backward, and of the weights alone
PASSES = {"F": COMPUTE, "B": "#2f855a", "W": "#8467b8"}
FONT = "font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\""
LEGEND_ROW = 20


def document(width_: float, height: float, title: str, body: Iterable[str], extra: str = "") -> str:
    """A whole SVG. The names of its patterns are its own, so that several pictures may share a page."""
    content = "\n".join(body)
    own = f"p{zlib.crc32(content.encode()):08x}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width_:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width_:.0f} {height:.0f}" role="{"group" if extra else "img"}" aria-label="{escape(title)}" '
        f'{FONT} font-size="12" fill="{INK}"{extra}>\n'
        + f"<defs>{_hatch('w', WAIT_PALE, WAIT)}{_hatch('x', PAPER, BAND_EDGE)}{_hatch('r', BAD_PALE, BAD)}"
        f"{_hatch('g', PALE, QUIET)}</defs>\n"
        f'<rect width="100%" height="100%" fill="{PAPER}"/>\n{content}\n</svg>\n'
    ).replace("@ID@", own)


def hatch(name: str) -> str:
    """A hatched fill: "w" waiting, "x" passing through, "r" wrong, "g" gone or still."""
    return f"url(#@ID@{name})"


def _hatch(name: str, ground: str, stroke: str) -> str:
    return (
        f'<pattern id="@ID@{name}" width="5" height="5" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="5" height="5" fill="{ground}"/>'
        f'<path d="M0 0v5" stroke="{stroke}" stroke-width="2.4"/></pattern>'
    )


def text(x: float, y: float, words: str, size: float = 11, fill: str = "", anchor: str = "", more: str = "") -> str:
    colour = f' fill="{fill}"' if fill else ""
    where = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"{colour}{where}{more}>{escape(words)}</text>'


def head(x: float, y: float, dx: float, dy: float, colour: str, size: float = 7) -> str:
    """The head of an arrow that comes from direction (dx, dy) and ends at (x, y)."""
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    ux, uy = dx / length, dy / length
    bx, by, px, py = x - ux * size, y - uy * size, -uy * size * 0.42, ux * size * 0.42
    return (
        f'<path d="M{x:.1f} {y:.1f}L{bx + px:.1f} {by + py:.1f}L{bx - px:.1f} {by - py:.1f}z" fill="{colour}" '
        f'stroke="none"/>'
    )


def cross(x: float, y: float, reach: float = 6, colour: str = BAD, thick: float = 2.4) -> str:
    wide = f"{2 * reach:g}"
    return (
        f'<path d="M{x - reach:.1f} {y - reach:.1f}l{wide} {wide}m0 -{wide}l-{wide} {wide}" stroke="{colour}" '
        f'stroke-width="{thick:g}" fill="none"/>'
    )


def bar(fill: str, stroke: str) -> str:
    """A legend's sample of a bar."""
    return f'<rect x="6" y="-12" width="10" height="14" fill="{fill}" stroke="{stroke}" stroke-width="0.8"/>'


def arrow(colour: str, dash: str = "") -> str:
    """A legend's sample of an arrow."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M0 -4H17" stroke="{colour}" stroke-width="1.6"{dashed}/>' + head(22, -4, 1, 0, colour)


def legend_rows(entries: list[tuple[str, str]], room: float) -> list[list[tuple[float, str, str]]]:
    """The entries of a legend (sample, words) set in lines of `room` pixels: (x, sample, words)."""
    rows: list[list[tuple[float, str, str]]] = [[]]
    x = 0.0
    for sample, words in entries:
        wide = 29 + 0.92 * width(words, 11) + 20
        if rows[-1] and x + wide - 20 > room:
            rows.append([])
            x = 0.0
        rows[-1].append((x, sample, words))
        x += wide
    return rows


def legend(rows: list[list[tuple[float, str, str]]], left: float, top: float) -> Iterator[str]:
    for number, row in enumerate(rows):
        for x, sample, words in row:
            place = f"translate({left + x:.1f} {top + LEGEND_ROW * number:.1f})"
            yield f'<g transform="{place}">{sample}{text(29, 0, words, 11, SOFT)}</g>'
