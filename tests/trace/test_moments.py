"""What every rank does at each moment of a picture, as the player shows it."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from runs import RUNS
from stories import STORIES

from grader.classroom.pages import figures
from grader.trace import diagram, moments, storyboard

Rows = dict[str, list[list[object]]]


def told(name: str) -> tuple[list[str], Rows]:
    trace, cycle, marks = RUNS[name]()
    root = ElementTree.fromstring(diagram.svg(trace, "t", "", cycle, marks))
    data = json.loads(root.findtext("{*}metadata") or "null")
    return data["times"], dict(data["rows"])


def at(changes: list[list[object]], moment: int) -> object:
    return [words for since, words in changes if isinstance(since, int) and since <= moment][-1]


STATES = [
    ("deadlock of 4", -1, "rank 3", "waits forever to send to rank 0 (line 16)"),
    ("ring of 4", 1, "rank 0", "receives from rank 3 (line 7)"),
    ("ring of 4", -1, "rank 0", "returned"),
    ("ring of 4", 0, "on the way", "0 → 1: 4,096 bytes, 1 → 2: 4,096 bytes, 2 → 3: 4,096 bytes, 3 → 0: 4,096 bytes"),
    ("pipeline", 0, "rank 0", "computes"),
    ("pipeline", 0, "rank 3", "waits to receive from rank 2 (line 7)"),
    ("mismatch", -1, "rank 0", "waits forever in all_reduce (line 7)"),
]


@pytest.mark.parametrize(("name", "moment", "row", "words"), STATES)
def test_a_rank_at_a_moment(name: str, moment: int, row: str, words: str) -> None:
    times, rows = told(name)
    assert at(rows[row], moment % len(times)) == words


def test_a_story_tells_what_each_node_and_client_did_last() -> None:
    root = ElementTree.fromstring(storyboard.svg(STORIES["partition"]()))
    data = json.loads(root.findtext("{*}metadata") or "null")
    assert len(data["times"]) == len(data["lines"]) > 2
    assert "network" in dict(data["rows"])
    for _, changes in data["rows"]:
        assert changes[0] == [0, ""]
        assert [since for since, _ in changes] == sorted(since for since, _ in changes)
        assert changes[-1][0] < len(data["times"])


def test_a_picture_that_nobody_can_step_through_carries_nothing() -> None:
    assert "<metadata>" not in diagram.svg(RUNS["ring of 32"]()[0], "t")


def test_a_page_without_scripts_has_only_the_picture() -> None:
    found = figures.figure(diagram.svg(RUNS["ring of 4"]()[0], "t"))
    assert found is not None
    assert "metadata" not in found.html(1)
    assert "querySelectorAll" in moments.script()
