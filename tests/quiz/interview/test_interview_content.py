"""What is read of answers and of rounds, and what is said of broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from grader import catalog
from grader.quiz import formula
from grader.quiz.deck import DeckError
from grader.quiz.interview import content, lint, rounds, rubric
from grader.quiz.interview.task import Point, Question
from tests.quiz.interview.conftest import ENTRY, QUESTIONS, ROUND, WORDS

ENTRIES = "---\narea: fundamentals\ntitle: All\n---\n\n" + ENTRY.format(id="q-a", words=WORDS)

BROKEN_ENTRIES = {
    "no front matter": ("---\narea: fundamentals\n", "", "1: the file must begin with `area:`, `title:`"),
    "an unknown area": ("area: fundamentals", "area: cooking", "1: area is 'cooking'; it should be 'fundamentals'"),
    "an unknown key": ("title: All", "name: All", "3: unknown key 'name'"),
    "no id": ("## q-a", "## Q A", "6: 'Q A' is not an id"),
    "text before questions": ("## q-a", "Hello\n\n## q-a", "6: expected a question"),
    "text before the answer": ("### Answer", "Hello\n\n### Answer", "8: 'q-a' must begin with `### Answer`"),
    "a part missing": ("### Listen for", "### Rubric", "6: 'q-a' needs the parts Answer, Listen for, Follow-ups"),
    "an answer too short": (WORDS, "", "8: the answer to 'q-a' has 4 words, and needs at least 40"),
    "too few points": (
        ENTRY[ENTRY.index("- mid 1: S") : ENTRY.index("- principal")].format(id="q-a"),
        "",
        "12: 'Listen for' has 2 of at least 3 items",
    ),
    "a point that is none": ("- mid 1: Third", "Third", "16: expected an item of the list"),
    "an empty point": ("- mid 1: Third point of q-a", "- \n- x", "16: an item of 'Listen for' is empty"),
    "a point without a level": ("- senior 3: ", "- ", "17: write a point as `- LEVEL WEIGHT: What one says`"),
    "a weight that is none": ("- senior 3: ", "- senior 4: ", "17: write a point as"),
    "too few follow-ups": ("- **And then?** That.\n", "", "20: 'Follow-ups' has 1 of at least 2 items"),
    "a follow-up without a question": ("- **And then?** That.", "- And then? That.", "23: write a follow-up as"),
    "a follow-up without an answer": ("- **And then?** That.", "- **And then?**", "23: write a follow-up as"),
    "an open fence": ("The answer", "```\nThe answer", "10: this code fence is never closed"),
}


def test_entries_are_read() -> None:
    (entry,) = content.parse(ENTRIES, "a.md")
    assert (entry.question, entry.area, entry.where) == ("q-a", "fundamentals", "a.md:6")
    assert entry.points == (
        Point("**First** point of q-a", "mid", 1),
        Point("Second point of q-a", "mid", 1),
        Point("Third point of q-a", "mid", 1),
        Point("Fourth point of q-a", "senior", 3),
        Point("Fifth point of q-a", "principal", 1),
    )
    assert [(each.question, each.answer) for each in entry.follow_ups] == [
        ("What follows q-a?", "This follows."),
        ("And then?", "That."),
    ]
    assert entry.answer.startswith("The answer to q-a. word")


def test_items_may_go_on_indented_and_headings_in_code_are_none() -> None:
    text = ENTRIES.replace("Third point", "Third\n  point").replace("The answer", "```\n## no\n### no\n```\nThe answer")
    (entry,) = content.parse(text, "a.md")
    assert entry.points[2].text == "Third point of q-a"
    assert "### no" in entry.answer


@pytest.mark.parametrize(("old", "new", "said"), BROKEN_ENTRIES.values(), ids=BROKEN_ENTRIES)
def test_a_broken_entry_is_said_with_its_line(old: str, new: str, said: str) -> None:
    assert old in ENTRIES
    with pytest.raises(DeckError) as caught:
        content.parse(ENTRIES.replace(old, new, 1), "a.md")
    assert str(caught.value).startswith(f"a.md:{said}")


def test_points_come_by_level_whatever_their_order() -> None:
    text = ENTRIES.replace("- mid 1: **First**", "- principal 2: **First**")
    (entry,) = content.parse(text, "a.md")
    assert [each.text.split()[0] for each in entry.points] == ["Second", "Third", "Fourth", "**First**", "Fifth"]


RUBRICS = {
    "whole": ("mid 1, senior 1, principal 1", "senior", ""),
    "a mid's points are all that count for a mid": ("mid 1, senior 3, principal 3", "mid", ""),
    "nothing for a level": ("mid 1, senior 1", "mid", "nothing that a principal says is in the rubric"),
    "passed without a point of one's own": (
        "mid 3, senior 2, principal 9",
        "senior",
        "weigh 2 of 5: one passes without",
    ),
    "just not passed without": ("mid 2, senior 2, principal 3", "principal", ""),
}


@pytest.mark.parametrize(("points", "level", "said"), RUBRICS.values(), ids=RUBRICS)
def test_a_rubric_tells_levels_apart(points: str, level: str, said: str) -> None:
    made = [Point("x", each.split()[0], int(each.split()[1])) for each in points.split(", ")]
    found = rubric.fault(made, level)
    assert said in found if said else not found


def test_a_rubric_is_listed_by_level() -> None:
    text = rubric.listed([Point("One", "mid", 2), Point("Two", "mid"), Point("Three", "principal", 3)])
    assert text == "*A mid says*\n\n- One (2)\n- Two (1)\n\n*A principal adds*\n\n- Three (3)"


DESIGN = ROUND[ROUND.index("## design") : ROUND.index("## failure")]
LINKS = ROUND[ROUND.index("### Number: links") : ROUND.index("### Hint")]
BROKEN_ROUNDS = {
    "an unknown level": ("level: senior", "level: junior", "1: level is 'junior'; it should be"),
    "nothing said first": ("The interviewer opens.", "", "7: a round must begin with"),
    "no sources": ("## Sources\n\n- The author, this year.\n", "", "127: a round must end with `## Sources`"),
    "empty sources": ("- The author, this year.\n", "", "143: 'Sources' has 0 of at least 1"),
    "an unknown stage": ("## clarify: What", "## ponder: What", "10: write a stage's heading"),
    "a stage without a title": ("## design: How?", "## design:", "95: write a stage's heading"),
    "stages out of order": ("## design: How?", "## clarify: How?", "10: stages must be in the order"),
    "too few stages": (DESIGN, "", "1: a round needs 5 to 7 stages, not 4"),
    "no minutes": ("minutes: 2\n\nAsk", "Ask", "11: expected `key: value`"),
    "minutes that are none": ("minutes: 3", "minutes: some", "26: stage 'estimate: How large?' has minutes 'some'"),
    "no prompt": ("Ask.\n", "", "10: stage 'clarify: What for?' has no prompt"),
    "parts out of order": ("### Mistakes", "### Hint", "26: stage 'estimate: How large?' needs the parts"),
    "an empty answer": ("One asks.\n", "", "15: the answer of stage"),
    "a hint for nothing": ("cost: 1", "cost: 0", "75: a hint has cost '0'; it should be greater than 0"),
    "a hint that says nothing": ("Multiply.\n", "", "75: this hint is empty"),
    "a number without an id": ("### Number: state", "### Number: The State", "31: 'The State' is not an id"),
    "a number twice": ("### Number: days", "### Number: state", "1: the number 'state' is there twice"),
    "an answer that is none": ("answer: 16", "answer: many", "31: 'state' has answer 'many'; it should be a number"),
    "a tolerance that is none": ("unit: TB", "unit: TB\ntolerance: 3", "31: 'state' has tolerance '3'"),
    "no explanation": ("16 TB.\n", "", "31: 'state' has an empty explanation"),
    "too few numbers": (LINKS, "", "1: a round needs at least 4 numbers to work out, not 3"),
}  # fmt: skip


def test_a_round_is_read() -> None:
    found = rounds.parse(ROUND, "small.md", "small")
    assert (found.name, found.minutes, found.questions, found.opening) == (
        "small", 10, ("q-design",), "The interviewer opens.",
    )  # fmt: skip
    stage = found.stages[1]
    assert (stage.id, stage.title, stage.round, stage.level) == ("small/2", "Estimate: How large?", "small", "senior")
    assert [each.id for each in stage.estimates] == ["state", "days", "share", "links"]
    assert (stage.hints[0].text, stage.hints[0].cost) == ("Multiply.", 1)
    assert stage.mistakes == ('**"16 GB."** A thousand times too little.',)


@pytest.mark.parametrize(("old", "new", "said"), BROKEN_ROUNDS.values(), ids=BROKEN_ROUNDS)
def test_a_broken_round_is_said_with_its_line(old: str, new: str, said: str) -> None:
    assert old in ROUND
    with pytest.raises(DeckError) as caught:
        rounds.parse(ROUND.replace(old, new, 1), "small.md", "small")
    assert str(caught.value).startswith(f"small.md:{said}")


def test_the_linter_holds_answers_against_the_questions(tmp_path: Path) -> None:
    (tmp_path / "rounds").mkdir()
    (tmp_path / "01-a.md").write_text(ENTRIES)
    (tmp_path / "02-b.md").write_text(ENTRIES)
    (tmp_path / "03-c.md").write_text("nothing")
    (tmp_path / "rounds" / "small.md").write_text(ROUND.replace("1e12 * 16 / 1e12", "1e12 * 12").replace("4 - 1", "x"))
    found = lint.problems(tmp_path, [Question("q-b", "mid", "t", "?")], {"t"})
    said = "\n".join(found)
    for words in (
        "02-b.md:6: 'q-a' is also at", "03-c.md:1: the file must begin", "'q-a' is not an interview question",
        "question 'q-b' has no answer", "small.md:1: 'q-design' is not an interview question", "'design' is not a",
        "small.md:31: 'state': formula '1e12 * 12' gives 1.2e+13", "small.md:64: 'links': formula 'x': it cannot be",
    ):  # fmt: skip
        assert words in said


def test_the_linter_is_content_with_the_small_course(course: object) -> None:
    folder = course.interview  # type: ignore[attr-defined]
    assert lint.problems(folder, QUESTIONS, {"basics", "more", "design"}) == []


def test_the_courses_own_interview_is_whole() -> None:
    questions = [Question(each.id, each.level, each.topic, each.text) for each in catalog.asked()]
    assert lint.problems(catalog.interview(), questions, {topic.id for topic in catalog.topics()}) == []


OWN = rounds.load_folder(catalog.interview() / "rounds")


def test_there_are_the_seven_rounds() -> None:
    names = ["100gb-8gpus", "asynchronous-rl", "feature-pipeline", "llm-service", "one-trillion",
             "payments-across-regions", "three-month-run"]  # fmt: skip
    assert [each.name for each in OWN] == names
    designed = {question for each in OWN for question in each.questions}
    listing = yaml.safe_load((catalog.course() / "questions.yaml").read_text())["questions"]
    of_design = {each["id"] for each in listing if each["topic"].startswith("design-")}
    assert designed == of_design | {"q-serve-fleet", "q-design-rl", "q-global-tx"}


@pytest.mark.parametrize("design", OWN, ids=lambda design: design.name)
def test_each_round_rewards_pushing_back_on_a_requirement(design: rounds.Round) -> None:
    clarify = [each for each in design.stages[0].points if "**Pushes back" in each.text]
    assert [(each.level, each.weight >= 2) for each in clarify] == [(design.level, True)]


@pytest.mark.parametrize(
    "estimate",
    [pytest.param(each, id=f"{own.name}-{each.id}") for own in OWN for stage in own.stages for each in stage.estimates],
)
def test_each_estimate_follows_from_its_formula(estimate: object) -> None:
    computed = formula.compute(estimate.formula)  # type: ignore[attr-defined]
    assert computed == pytest.approx(estimate.value, rel=0.025)  # type: ignore[attr-defined]
    assert abs(computed - estimate.value) < estimate.tolerance * estimate.value  # type: ignore[attr-defined]
