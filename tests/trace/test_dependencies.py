"""The picture of a cycle of transactions."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from grader.trace.dependencies import Arrow, Card, Dependencies, svg

NAMES = ("T1", "T2", "T3")
TEXT = "{http://www.w3.org/2000/svg}text"


def words(*kinds: str) -> list[str]:
    cards = [
        Card(name, "committed", [("append x 1", False), ("r y [1, 2]", True)], name) for name in NAMES[: len(kinds)]
    ]
    arrows = [Arrow(kind, f"because {at}") for at, kind in enumerate(kinds)]
    root = ET.fromstring(svg(Dependencies(cards, arrows, "A cycle", "small")))
    return [element.text or "" for element in root.iter(TEXT)]


def test_every_card_and_every_arrow_is_told() -> None:
    found = words("ww", "wr", "rw")
    assert {*NAMES, "A cycle", "append x 1", "r y [1, 2]", "ww: because 0", "rw: because 2"} <= set(found)
    assert any(text.startswith("rw: did not see") for text in found)


def test_a_step_that_is_no_edge_is_told() -> None:
    assert {"because 1", "no such dependency"} <= set(words("wr", ""))


def test_a_failed_writer_stands_above_its_reader() -> None:
    cards = [Card("T4", "failed", [("append x 9", True)], "T4", failed=True), Card("T6", "committed", [], "T6")]
    drawn = svg(Dependencies(cards, [Arrow("wr", "T6 read x = [9]")], "G1a"))
    assert "stroke-dasharray" in drawn
    found = {element.text: float(element.get("y", "nan")) for element in ET.fromstring(drawn).iter(TEXT)}
    assert found["T4"] < found["append x 9"] < found["wr: T6 read x = [9]"] < found["T6"] < found["no operations"]


def test_there_may_be_nothing_to_draw() -> None:
    assert "</svg>" in svg(Dependencies([], []))
