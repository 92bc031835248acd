"""The report's two files: what they say, and that nothing typed becomes markup."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from grader.quiz.deck import LEVELS, Card
from grader.quiz.interview import report
from grader.quiz.interview.summary import Exercise, Library, Reading, summarise
from grader.quiz.interview.task import Done, FollowUp, Guess, Interview, Ticked
from tests.quiz.interview.conftest import NOON, task

NASTY = "<script>alert(1)</script> & ``` fences\n# no heading\n[x](javascript:alert(1))"
GOOD = Done(
    "q-a",
    "q-a",
    "cap",
    "fundamentals",
    "cap",
    "mid",
    "State **CAP**.",
    4,
    200,
    NASTY,
    "rated",
    (Ticked("**One**", True, "mid", 2), Ticked("Two", True, "senior", 1), Ticked("Thrift", False, "mid", 1)),
    (),
    (("Next?", 1.0), ("Then?", None)),
)
BAD = Done(
    "r/2",
    "q-r",
    "Estimate: How large?",
    "design",
    "size",
    "senior",
    "Work.",
    5,
    400,
    "",
    "rated",
    (Ticked("A", False), Ticked("B", False)),
    (Guess("n", "How many bytes?", ("12", "1"), "16 TB", 0.0),),
    (),
    0.0,
    "r",
)
LEFT = replace(GOOD, task="q-c", rating="unrated", written="half", follow_ups=(("Next?", None),))
INTERVIEW = Interview("k", "senior", 30, 7, NOON.isoformat(), NOON.isoformat(), 4, done=(GOOD, BAD, LEFT))
LIBRARY = Library(
    {"size": Reading("15", "Design", "How large it is", "/course/15 design.ipynb#How-large-it-is")},
    {"size": Exercise("parallel_plan", "/exercises/parallel_plan.ipynb")},
    [Card("c1", "15", "senior", "size", "qa", "?", "!", asks="q-r")],
)
ANSWERS = {
    "q-a": task(
        "q-a", answer="**Two** of three.", mistakes=('**"All three."** No.',), follow_ups=(FollowUp("Next?", "No."),)
    )
}
FORMER = replace(INTERVIEW, key="f", done=(replace(GOOD, ticked=(Ticked("One", False), Ticked("Two", False))),))


class Tags(HTMLParser):
    """The tags of a page, each closed as HTML wants it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def text() -> str:
    return report.markdown(INTERVIEW, summarise(INTERVIEW, [FORMER], LIBRARY), Path("/work/interviews"), ANSWERS)


@pytest.fixture
def html() -> str:
    return report.html(INTERVIEW, summarise(INTERVIEW, [FORMER], LIBRARY), Path("/work/interviews"), ANSWERS)


def test_scores_by_area_and_topic_leave_out_what_was_not_rated() -> None:
    found = summarise(INTERVIEW, [FORMER], LIBRARY)
    assert [(each.name, each.earned, each.most, each.before) for each in found.areas] == [
        ("fundamentals", 2, 3, 0.0),
        ("design", 0, 3, None),
    ]
    assert (found.total.earned, found.total.most) == (2, 6)
    assert [each.topic for each in found.advice] == ["size"]
    assert [card.id for card in found.advice[0].cards] == ["c1"]
    assert found.follow_ups == (1.0, 1)


def test_the_markdown_says_what_to_do(text: str) -> None:
    for words in (
        "# Mock interview, senior",
        "3 of 4 questions, 1 over time; 13:20 of 30 minutes",
        "Seed 7.",
        "**2 of 6 points, 33%. Before: 0% (+33).** Your answers sound like those of a senior: 67% of what a mid says, "
        "100% of what a senior adds.",
        "| fundamentals | 2 of 3 | 67% | 0% |",
        "[chapter 15, How large it is](../../course/15%20design.ipynb#How-large-it-is) (`rankup lab 15`)",
        "[parallel_plan](../../exercises/parallel_plan.ipynb) (`rankup start parallel_plan`)",
        "1 card is due now: `rankup quiz 15`",
        "You said 12 and then 1; it is 16 TB.",
        "- [x] **One**",
        "- [ ] Thrift",
        "6:40 of 5:00, 1:40 over",
        "Not rated: you left before the rubric",
        "- Next? *had it*\n\n  No.\n",
        "\n- Then? *not reached*\n",
        "What a strong candidate says:\n\n**Two** of three.",
        '- **"All three."** No.',
        "- [ ] Thrift (mid, 1) *(not in your answer: Thrift)*",
        "`rankup interview --level senior --minutes 30 --seed 7`",
    ):
        assert words in text
    assert f"````text\n{NASTY}\n````" in text


def test_the_page_is_whole_and_needs_nothing_else(html: str) -> None:
    tags = Tags(html)
    assert not tags.seen & {"script", "img", "link", "iframe"}
    assert sorted(tags.links) == [
        "../../course/15%20design.ipynb#How-large-it-is",
        "../../exercises/parallel_plan.ipynb",
    ]
    assert "url(" not in html
    assert "prefers-color-scheme: dark" in html


def test_the_page_shows_what_was_typed_as_it_was(html: str) -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; ``` fences\n# no heading" in html
    assert "State <strong>CAP</strong>." in html


def test_the_page_says_in_words_what_it_says_in_colours(html: str) -> None:
    for words in (
        "had</span>",
        "missed</span>",
        "Your answers sound like",
        "67%",
        "not rated",
        "1:40 over",
        "scope=",
        "<strong>Two</strong> of",
    ):
        assert words in html


SOUNDS = {
    "a mid who knows some of what a senior says": ((3, 1, 0), "mid"),
    "a principal's points without a senior's": ((3, 0, 3), "mid"),
    "all three": ((3, 2, 2), "principal"),
    "not even a mid": ((1, 3, 3), ""),
}


@pytest.mark.parametrize(("had", "sounds"), SOUNDS.values(), ids=SOUNDS)
def test_whose_answers_these_sound_like(had: tuple[int, int, int], sounds: str) -> None:
    ticked = tuple(Ticked("x", at < of, level) for level, of in zip(LEVELS, had, strict=True) for at in range(3))
    found = summarise(replace(INTERVIEW, done=(replace(GOOD, ticked=ticked),)), [], LIBRARY)
    assert found.sounds == sounds
    assert ("not yet like those of a mid" in report.sounding(found)) == (not sounds)


def test_an_interview_of_nothing_rated_has_a_report() -> None:
    interview = replace(INTERVIEW, done=(LEFT,))
    found = summarise(interview, [], LIBRARY)
    assert "Nothing was rated" in report.markdown(interview, found, Path("/x"), {})
    Tags(report.html(interview, found, Path("/x"), {}))


def test_only_interviews_of_the_level_that_were_rated_are_compared_with() -> None:
    former = [replace(FORMER, level="mid"), replace(FORMER, done=(LEFT,))]
    assert summarise(INTERVIEW, former, LIBRARY).total.before is None
    assert summarise(INTERVIEW, former, LIBRARY).former == ()
    assert summarise(replace(INTERVIEW, done=(LEFT,)), [FORMER], LIBRARY).total.before is None  # no fall


def test_files_are_there_whole_or_not_at_all(tmp_path: Path) -> None:
    report.write(INTERVIEW, [], LIBRARY, tmp_path / "a" / "b")
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [
        "2026-03-01-senior.html",
        "2026-03-01-senior.md",
    ]
