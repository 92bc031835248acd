"""Pictures and tables of a chapter: what is drawn where, and what cannot be drawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from courselib import bars, plot, si, table
from courselib.svg import Axis

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def spots(svg: str) -> list[list[tuple[float, float]]]:
    """The corners of each line."""
    lines = ElementTree.fromstring(svg).iter(f"{SVG}polyline")
    return [[(float(x), float(y)) for x, y in (spot.split(",") for spot in line.attrib["points"].split())]
            for line in lines]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.00021, "s", "210 µs"),
        (1.0, "s", "1 s"),
        (86.8, "h", "86.8 h"),
        (2.4e9, "B/s", "2.4 GB/s"),
        (0.0, "s", "0 s"),
        (-0.002, "s", "-2 ms"),
        (20000, "", "20k"),
        (0.25, "", "0.25"),
        (999_960, "", "1M"),
    ],
)
def test_a_number_gets_its_prefix(value: float, unit: str, expected: str) -> None:
    assert si(value, unit) == expected


def test_a_straight_line_is_straight_on_linear_axes() -> None:
    [corners] = spots(plot("", {"a": [(0, 0), (1, 10), (2, 20)]}).svg)
    (x0, y0), (x1, y1), (x2, y2) = corners
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)
    assert y2 < y0, "larger values are higher up"


def test_equal_factors_are_equal_distances_on_logarithmic_axes() -> None:
    [corners] = spots(plot("", {"a": [(1, 1), (10, 100), (100, 10_000)]}, log="xy").svg)
    (x0, y0), (x1, y1), (x2, y2) = corners
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (Axis(0, 10), [0, 2, 4, 6, 8, 10]),
        (Axis(0, 86.8), [0, 20, 40, 60, 80]),
        (Axis(1, 50, log=True), [1, 2, 5, 10, 20, 50]),
        (Axis(1e-6, 1, log=True), [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1]),
        (Axis(1, 1e12, log=True), [1, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12]),
    ],
)
def test_ticks_are_round_and_few(axis: Axis, expected: list[float]) -> None:
    assert axis.ticks() == pytest.approx(expected)


def test_legend_axes_and_units_are_written_out() -> None:
    picture = plot("T", {"fast": [(1, 0.001)], "slow": [(2, 0.002)]}, {"seen": [(1, 0.001)]}, x="n", y="t",
                   units=("", "s"))  # fmt: skip
    found = texts(picture.svg)
    assert {"T", "fast", "slow", "seen", "n", "t", "1 ms"} <= set(found)


def test_names_cannot_break_the_picture() -> None:
    for svg in (plot("<b>", {"a & b": [(1, 1)]}, x='"').svg, bars("<b>", {"a < b": 1.0}).svg):
        assert "<b>" in texts(svg)


def test_points_are_told_from_lines() -> None:
    alone, beside = (
        ElementTree.fromstring(plot("", {"fit": [(1, 1), (2, 2)]}, points).svg)
        for points in (None, {"measured": [(1, 1)]})
    )
    assert len([*alone.iter(f"{SVG}circle")]) == 3, "two points and one in the legend"
    assert not [*beside.iter(f"{SVG}circle")], "the line's own points would pass for measured ones"


@pytest.mark.parametrize("log", [False, True])
def test_longer_bars_for_larger_values(log: bool) -> None:
    found = re.findall(r"H([0-9.]+)\"", bars("", {"a": 1.0, "b": 3.0, "c": 2.0}, log=log).svg)
    a, b, c = map(float, found)
    assert a < c < b


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plot("", {}),
        lambda: plot("", {"a": []}),
        lambda: plot("", {"a": [(1, 0)]}, log="y"),
        lambda: plot("", {"a": [(-1, 1)]}),
        lambda: plot("", {"a": [(1, float("nan"))]}),
        lambda: bars("", {}),
        lambda: bars("", {"a": 0.0}, log=True),
    ],
)
def test_what_cannot_be_drawn_is_said(draw: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"drawn|draw"):
        draw()


def test_a_table_is_markdown() -> None:
    shown = table(["a", "b"], [[1, "x|y"], ["**2**", ""]])
    assert shown._repr_markdown_() == "| a | b |\n| --- | --- |\n| 1 | x\\|y |\n| **2** |  |"


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="1 cells below a head of 2"):
        table(["a", "b"], [[1]])
