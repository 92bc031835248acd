"""Pictures and pages of histories: well formed, escaped, with what matters in them, whatever the history."""

from __future__ import annotations

import random
import re
from typing import Any
from xml.etree import ElementTree

import pytest
import real_runs
from hypothesis import given
from hypothesis import strategies as st
from test_linearizability import WRONG, story

from grader.nodes.histories import page, picture, view
from grader.nodes.histories.checker import linearizable
from grader.nodes.histories.history import NEVER, Operation, pair
from grader.nodes.histories.sequential import sequential
from grader.trace import dark
from grader.trace.story import Fault
from grader.trace.style import BAD

SVG = "{http://www.w3.org/2000/svg}"
NASTY = '</script><script>alert(1)</script>"&'
FAULTS = (
    Fault("partition", 5, 25, (("n1", "n2"),)),
    Fault("down", 12, 12, (("n3",),), "crash"),
    Fault("slow", 20, NEVER, ((NASTY,),), "slow disk"),
)


def drawn(operations: list[Operation], model: str, faults: tuple[Fault, ...] = ()) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg(linearizable(operations, model), operations, "A title", faults))


def bars(root: ElementTree.Element) -> list[str]:
    """What is said of every bar."""
    return [title.text or "" for title in root.iter(f"{SVG}title")]


def points(root: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(dot.get("cx", 0)), float(dot.get("cy", 0))) for dot in root.iter(f"{SVG}circle")]


def words(root: ElementTree.Element) -> str:
    return " ".join("".join(part.itertext()) for part in root.iter(f"{SVG}text"))


def test_every_operation_has_a_bar_and_those_in_the_order_a_point() -> None:
    root = drawn(story("c1 w 1 0-10", "c1 w 2 20-30", "c2 r 1 40-50", "c3 w 9 5-"), "register")
    assert bars(root) == [
        "write of 1 by c1 at 0-10 s: ok",
        "write of 9 by c3 from 5 s on: outcome unknown",
        "write of 2 by c1 at 20-30 s: ok",
        "read by c2 at 40-50 s: returned 1",
    ]
    assert len(points(root)) - words(root).count("may have taken effect") == 2


@pytest.mark.parametrize(("steps", "model"), [case[:2] for case in WRONG.values()], ids=WRONG.keys())
def test_what_contradicts_is_red(steps: list[str], model: str) -> None:
    operations = story(*steps)
    checked = linearizable(operations, model)
    root = drawn(operations, model)
    red = [shape for shape in root.iter(f"{SVG}rect") if shape.get("stroke") == BAD and shape.get("rx")]
    open_ = [shape for shape in root.iter(f"{SVG}path") if shape.get("stroke") == BAD and shape.get("stroke-dasharray")]
    assert len(red) + len(open_) == len(checked.pair)


def test_nothing_is_red_where_all_is_right() -> None:
    operations = story("c1 w 1 0-10", "c2 r 1 20-30")
    assert BAD not in picture.svg(linearizable(operations, "register"), operations, "x").partition("</defs>")[2]


@given(st.integers(0, 2**32), st.sampled_from(["register", "cas-register", "kv"]), st.integers(1, 60), st.booleans())
def test_points_lie_on_their_bars_from_left_to_right(seed: int, model: str, count: int, wrong: bool) -> None:
    chance = random.Random(seed)
    events = real_runs.events(chance, model, count, lost=0.15)
    operations = pair(real_runs.mutated(chance, events) if wrong else events)
    checked = linearizable(operations, model)
    sheet = picture._Sheet(checked, view.View.of(checked, operations), "x")
    placed = [(sheet.points[id(one)], one) for one in checked.order]
    assert [x for x, _ in placed] == sorted(x for x, _ in placed)
    for x, one in placed:
        end = sheet.end if one.end == NEVER else sheet.scale.at(one.end)
        assert sheet.scale.at(one.start) - 1e-6 <= x <= max(end, sheet.scale.at(one.start) + 2) + 1e-6
    ElementTree.fromstring(sheet.svg())


def test_faults_are_drawn_and_told() -> None:
    root = drawn(story("c1 w 1 0-10", "c2 r 1 20-30"), "register", FAULTS)
    for said in ("partition n1, n2", "crash n3", "slow disk", "a fault"):
        assert said in words(root)


def test_of_many_operations_the_part_around_the_violation_is_drawn_and_that_is_said() -> None:
    chance = random.Random(3)
    events = real_runs.events(chance, "register", 3000, 5, ["x", "y", "z"], values=0, lost=0.01)
    operations = pair(real_runs.mutated(chance, events))
    checked = linearizable(operations, "register")
    shown = view.View.of(checked, operations)
    assert checked.valid is False
    assert set(checked.pair) <= set(shown.drawn)
    assert {one.key for one in shown.drawn} == {checked.key}
    assert len(shown.drawn) < 120
    said = words(drawn(operations, "register"))
    assert f"{len(shown.drawn)} of" in said
    assert "around the violation" in said
    assert f"Only operations on {checked.key} are drawn" in said


def test_of_many_operations_without_a_violation_the_first_ones_are_drawn() -> None:
    operations = pair(real_runs.events(random.Random(3), "register", 300, 5, values=0))
    assert "are drawn, at the beginning" in words(drawn(operations, "register"))


@pytest.mark.parametrize("count", [10, 60, 240])
def test_a_picture_keeps_its_size(count: int) -> None:
    root = drawn(pair(real_runs.events(random.Random(1), "register", count, 5)), "register")
    assert float(root.get("width", 0)) <= 3200
    assert float(root.get("height", 0)) <= 2500


def test_every_colour_has_one_for_dark_pages() -> None:
    operations = story("c1 w 1 0-10", "c1 cas 1 2 20-30", "c2 r 1 40-50", "c3 w 9 5-", "c4 w 3 1-2 x")
    assert dark.follows(picture.svg(linearizable(operations, "cas-register"), operations, "x", FAULTS))


def nasty(value: Any) -> list[Operation]:
    event = {"process": NASTY, "f": "write", "key": NASTY, "value": value}
    read = {"process": "c2", "f": "read", "key": NASTY, "value": "\ud800 half a character"}
    return pair(
        [
            {**event, "type": "invoke", "time": 0},
            {**event, "type": "ok", "time": 1},
            {**read, "type": "invoke", "time": 2},
            {**read, "type": "ok", "time": 3},
        ]
    )


@pytest.mark.parametrize("value", [NASTY, "x" * 10_000, {"a": [NASTY]}, "\x00\x1b[31m\ud800"])
def test_a_page_is_whole_loads_nothing_and_escapes_everything(value: Any) -> None:
    operations = nasty(value)
    text = page.html(linearizable(operations, "register"), operations, NASTY, FAULTS)
    text.encode("utf-8")
    assert text.startswith("<!doctype html>")
    assert text.endswith("</body></html>\n")
    assert "<script" not in text
    assert not re.findall(r'(?:src|href)="|url\((?!#)', text)
    assert "prefers-color-scheme: dark" in text
    svg = re.search(r"<svg.*</svg>", text, re.DOTALL)
    assert svg
    ElementTree.fromstring(svg[0])


def test_the_page_of_a_history_that_is_not_sequentially_consistent_shows_keys() -> None:
    operations = story("c1 w 1 0-10", "c1 r null 20-30")
    text = page.html(sequential(operations, "register"), operations, "h.jsonl")
    assert "not sequentially consistent" in text
    assert "write of 1 on x" in text


def test_one_operation_is_a_picture() -> None:
    assert bars(drawn(story("c1 r null 0-0"), "register")) == ["read by c1 at 0-0 s: returned null"]
    assert bars(drawn(story("c1 w 1 5-"), "register")) == ["write of 1 by c1 from 5 s on: outcome unknown"]
