"""What the syllabus and the questions ask for is there: taught, shown, carded, exercised and answered."""

from __future__ import annotations

import re
from typing import Any

import chapters
import decks
import pytest
import yaml
from chapters import COURSE

from grader import catalog, registry

ROOT = COURSE.parent
SYLLABUS = yaml.safe_load((COURSE / "syllabus.yaml").read_text())
QUESTIONS = yaml.safe_load((COURSE / "questions.yaml").read_text())["questions"]
TOPICS = {topic["id"]: topic for topic in SYLLABUS["topics"]}
CARDS = decks.cards()
LEAST_WORDS = 150  # of a section
LEAST_CAREFUL = 40  # of a passage on what is often said wrong

each_topic = pytest.mark.parametrize("topic", TOPICS.values(), ids=TOPICS)
each_question = pytest.mark.parametrize("question", QUESTIONS, ids=[question["id"] for question in QUESTIONS])
each_chapter = pytest.mark.parametrize("chapter", SYLLABUS["chapters"], ids=lambda chapter: chapter["id"])


def section(topic: dict[str, Any]) -> chapters.Section:
    path = catalog.chapter_notebook(topic["chapter"])
    assert path is not None, f"chapter {topic['chapter']} is not written"
    found = chapters.topics(path)
    assert topic["id"] in found, f"no section of {path.name} is tagged <!-- topic: {topic['id']} -->"
    return found[topic["id"]]


@each_chapter
def test_a_chapter_is_written_under_its_title(chapter: dict[str, str]) -> None:
    path = catalog.chapter_notebook(chapter["id"])
    assert path is not None
    assert chapters.headings(path)[0] == f"{chapter['id']} · {chapter['title']}"


@each_topic
def test_a_topic_is_taught_in_a_section_of_its_own(topic: dict[str, Any]) -> None:
    assert section(topic).words >= LEAST_WORDS
    assert re.search(r"^## ", section(topic).text, re.MULTILINE), "a topic's tag stands before its heading"


@each_topic
def test_what_a_topic_is_to_show_is_run_in_its_section(topic: dict[str, Any]) -> None:
    if "show" in topic:
        taught = section(topic)
        assert taught.code or re.search(r"\]\(labs/\w+\.py\)", taught.text), topic["show"]


@each_topic
def test_what_is_often_said_wrong_about_a_topic_is_put_right_in_its_section(topic: dict[str, Any]) -> None:
    mark = f"<!-- careful: {topic['id']} -->"  # below the passage, in its cell
    assert (mark in section(topic).text) == ("careful" in topic), topic.get("careful")
    if "careful" in topic:
        passages = [cell.source for cell in cells(topic) if mark in cell.source]
        assert all(len(passage.split()) >= LEAST_CAREFUL for passage in passages)


def cells(topic: dict[str, Any]) -> list[Any]:
    path = catalog.chapter_notebook(topic["chapter"])
    assert path is not None
    return [cell for cell in chapters.notebook(path).cells if cell.cell_type == "markdown"]


@each_topic
def test_a_topic_has_a_card_at_each_of_its_levels(topic: dict[str, Any]) -> None:
    assert {card.level for card in CARDS if card.topic == topic["id"]} == set(topic["levels"])


@each_topic
def test_a_topics_cards_are_in_its_chapters_deck(topic: dict[str, Any]) -> None:
    assert {card.deck for card in CARDS if card.topic == topic["id"]} == {topic["chapter"]}


@each_topic
def test_a_topics_exercise_is_there(topic: dict[str, Any]) -> None:
    name = topic.get("exercise")
    if name:
        asked = registry.find(name)
        for holder in ("exercises", "solutions"):
            assert list((ROOT / holder).glob(f"{asked.chapter}-*/{name}.ipynb")), f"{name} has no notebook in {holder}/"


@pytest.mark.parametrize("name", registry.names())
def test_an_exercise_is_named_where_its_chapter_says_what_to_practise(name: str) -> None:
    path = catalog.chapter_notebook(registry.find(name).chapter)
    assert path is not None
    assert f"(../exercises/{path.stem}/{name}.ipynb)" in chapters.part(path, "Practise")


@each_question
def test_a_question_has_a_card_of_its_topic_or_level(question: dict[str, Any]) -> None:
    cards = [card for card in CARDS if card.asks == question["id"]]
    assert any(card.topic == question["topic"] for card in cards), f"no card has question: {question['id']}"


def entry(question: dict[str, Any]) -> dict[str, str]:
    """What course/interview says about a question, by heading."""
    for path in sorted((COURSE / "interview").glob("[0-9]*.md")):
        found = re.search(rf"^## {question['id']}\n(.*?)(?=^## |\Z)", path.read_text(), re.MULTILINE | re.DOTALL)
        if found:
            _, *parts = re.split(r"^### (.+)\n", found[1], flags=re.MULTILINE)
            return dict(zip(parts[::2], parts[1::2], strict=True))
    raise AssertionError(f"nothing in course/interview answers {question['id']}")


@each_question
def test_a_question_has_an_answer_points_to_listen_for_and_follow_ups(question: dict[str, Any]) -> None:
    answered = entry(question)
    assert list(answered) == ["Answer", "Listen for", "Follow-ups"]
    assert 40 <= len(answered["Answer"].split()) <= 400  # tables and code among them
    assert 4 <= len(re.findall(r"^- ", answered["Listen for"], re.MULTILINE)) <= 7
    assert 2 <= len(re.findall(r"^- \*\*.+[?.]\*\* ", answered["Follow-ups"], re.MULTILINE)) <= 4


@each_question
def test_a_question_stands_in_chapter_20_with_its_answer(question: dict[str, Any]) -> None:
    path = catalog.chapter_notebook("20")
    assert path is not None
    assert question["q"] in chapters.headings(path)
    [_, below] = chapters.markdown(path).split(f"# {question['q']}\n", 1)
    assert entry(question)["Answer"].strip().splitlines()[0] in below
