"""The picture of a cycle of transactions."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from grader.trace.dependencies import Arrow, Box, Dependencies, svg

NAMES = ("T1", "T2", "T3")


def words(kinds: tuple[str, ...]) -> list[str]:
    boxes = [Box(name, ["append x 1", "r y [1, 2]"], frozenset({1})) for name in NAMES[: len(kinds)]]
    arrows = [Arrow(at, (at + 1) % len(kinds), kind, f"because {at}") for at, kind in enumerate(kinds)]
    root = ET.fromstring(svg(Dependencies(boxes, arrows, "A cycle", "small")))
    return [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_every_box_and_every_arrow_is_told() -> None:
    found = words(("ww", "wr", "rw"))
    assert {*NAMES, "A cycle", "append x 1", "r y [1, 2]"} <= set(found)
    assert "T1 → T2  ww: because 0" in found
    assert any(text.startswith("T3 → T1  rw: because 2") for text in found)
    assert any(text.startswith("rw: missed") for text in found)


def test_a_step_that_is_no_edge_is_told() -> None:
    found = words(("wr", ""))
    assert "T2 → T1: because 1" in found
    assert "no such dependency" in found


def test_a_failed_writer_stands_above_its_reader() -> None:
    boxes = [Box("T4 (fail)", ["append x 9"], frozenset({0}), failed=True), Box("T6", [], frozenset())]
    drawn = svg(Dependencies(boxes, [Arrow(0, 1, "wr", "T6 read x = [9]")], "G1a"))
    assert "no operations" in drawn
    assert "stroke-dasharray" in drawn
