"""Time lines: where boxes lie, what is drawn of them, and what cannot be drawn."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from courselib.svg import FILLS
from courselib.timeline import Box, timeline

SVG = "{http://www.w3.org/2000/svg}"


def boxes(svg: str) -> dict[str, tuple[float, float, float, str]]:
    """By hover text up to the colon: x, y, width and fill of each box."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        title, rect = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        if title is not None and rect is not None:
            x, y, width = (float(rect.attrib[name]) for name in ("x", "y", "width"))
            found[(title.text or "").partition(":")[0]] = (x, y, width, rect.attrib["fill"])
    return found


def test_a_box_is_as_long_as_its_time_and_begins_where_the_one_before_ends() -> None:
    rows = {"rank 0": [(0.0, 1e-3, "a", "compute"), (1e-3, 4e-3, "b", "compute")]}
    drawn = boxes(timeline("", rows).svg)
    (x1, _, wide1, _), (x2, _, wide2, _) = drawn["a (compute)"], drawn["b (compute)"]
    assert wide2 == pytest.approx(3 * wide1, rel=0.01)
    assert x2 == pytest.approx(x1 + wide1, abs=0.02)


def test_boxes_that_overlap_lie_below_each_other() -> None:
    drawn = boxes(timeline("", {"network": [(0, 2, "a", "send"), (1, 3, "b", "send"), (2, 4, "c", "send")]}).svg)
    assert drawn["b (send)"][1] > drawn["a (send)"][1] == drawn["c (send)"][1]


def test_kinds_keep_their_colours_where_their_order_is_given() -> None:
    rows: dict[str, list[Box]] = {"rank 0": [(0, 1, "x", "second")]}
    assert boxes(timeline("", rows, kinds=["first", "second"]).svg)["x (second)"][3] == FILLS[1][0]
    assert "first" not in timeline("", rows, kinds=["first", "second"]).svg


def test_a_label_that_does_not_fit_is_in_the_hover_text_only() -> None:
    rows = {"rank 0": [(0.0, 0.01, "a long label", "k"), (0.01, 1.0, "short", "k")]}
    texts = [text.text for text in ElementTree.fromstring(timeline("", rows).svg).iter(f"{SVG}text")]
    assert "short" in texts
    assert "a long label" not in texts
    assert "a long label" in timeline("", rows).svg


def test_an_axis_can_be_longer_than_the_boxes() -> None:
    one, two = (boxes(timeline("", {"r": [(0, 1, "a", "k")]}, until=until).svg)["a (k)"][2] for until in (1.0, 2.0))
    assert one == pytest.approx(2 * two, abs=0.02)


@pytest.mark.parametrize(
    "row",
    [
        [],
        [(1.0, 0.5, "back", "k")],
        [(-1.0, 0.5, "early", "k")],
        [(0.0, 3.0, "late", "k")],
        [(0.0, float("nan"), "", "k")],
    ],
)
def test_what_cannot_be_drawn_is_an_error(row: list[Box]) -> None:
    with pytest.raises(ValueError, match=r"nothing to draw|does not lie"):
        timeline("", {"r": row}, until=2.0)


def test_too_many_kinds_are_an_error() -> None:
    with pytest.raises(ValueError, match="colours"):
        timeline("", {"r": [(k, k + 1, "", f"kind {k}") for k in range(len(FILLS) + 1)]})
