"""The page on a whole class: what it counts, and where it leads."""

from __future__ import annotations

import pytest
from sample_pages import DEADLOCK, HOSTILE, Page, assert_safe

from grader.classroom.pages import overview
from grader.classroom.pages.classwide import bins, by_kind
from grader.classroom.pages.overview import ClassResult, Row


def test_the_overview_tells_the_class() -> None:
    same = (("sum", "deadlock", DEADLOCK.message), ("bytes", "deadlock", DEADLOCK.message))
    rows = (
        Row("zoe", 20, 20, seconds=1.5),
        Row("Ada B/C", 0, 20, same),
        Row("ben", 16, 20, (("bytes", "too_many_bytes", "Too many."),), late=True),
        Row("carl", 0, 20, problem="The notebook cannot be read."),
    )
    text = overview.page(ClassResult("06-collectives", "ring_all_reduce", rows, 61.0, "local"))
    page = assert_safe(text)
    told = " ".join(page.text.split())
    for words in ("Ring all-reduce", "3 of 4 graded", "12 mean, of 20", "16 median", "1 with all points", "1 late",
                  "Deadlock 1 student of 3", "One submission could not be graded",
                  "The notebook cannot be read."):  # fmt: skip
        assert words in told
    assert told.index("carl") < told.index("What the class gets wrong") < told.index("zoe")
    assert "../feedback/Ada%20B%2FC/06-collectives/ring_all_reduce.html" in page.links
    assert not [link for link in page.links if "carl" in link]
    table = told[told.index("Students") :]
    assert table.index("Ada B/C") < table.index("ben") < table.index("carl") < table.index("zoe")


@pytest.mark.parametrize(
    "rows",
    [(), (Row("a", 0, 0, problem="No."),), (Row("a", 0, 0),), (Row("a", 20, 20),)],
    ids=["none", "broken", "0", "full"],
)
def test_a_class_may_be_empty_broken_or_perfect(rows: tuple[Row, ...]) -> None:
    assert_safe(overview.page(ClassResult("a", "ring_all_reduce", rows, 0.0, "")))


def test_one_mistake_of_several_students_is_one() -> None:
    other = (
        DEADLOCK.message.replace("24 bytes", "96 bytes").replace("line 6", "line 31").replace("tensor, right", "x, 1")
    )
    [found] = by_kind([("a", "sum", "deadlock", DEADLOCK.message), ("b", "sum", "deadlock", other)])
    assert found.students == ("a", "b")
    assert len(found.mistakes) == 1
    assert found.mistakes[0].checks == (("sum", 2),)


@pytest.mark.parametrize(
    ("most", "width", "count"),
    [(20, 2, 11), (24, 2, 13), (16, 2, 9), (10, 1, 11), (5, 1, 6), (100, 10, 11), (2, 0.2, 11)],
)
def test_the_histograms_bins_are_round_and_full_marks_stand_alone(most: float, width: float, count: int) -> None:
    found = bins([0, most / 2, most, most], most)
    assert len(found) == count
    assert found[0].high == pytest.approx(width)
    assert (found[-1].low, found[-1].count) == (most, 2)
    assert sum(each.count for each in found) == 4


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_text_adds_no_element_to_the_overview(text: str) -> None:
    def page(words: str) -> Page:
        rows = (
            Row(words, 3, 7, (("sum", "crash", f"{words} x"), (words, "wrong_result", words))),
            Row(words, 0, 7, (), words),
        )
        return assert_safe(overview.page(ClassResult(words, words, rows, 3.0, words)))

    assert page(text).tags == page("harmless").tags
