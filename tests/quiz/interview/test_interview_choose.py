"""Which questions are chosen, and how weakness is told."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.quiz import schedule
from grader.quiz.deck import LEVELS, Card, DeckError
from grader.quiz.interview import choose, rounds
from grader.quiz.interview.choose import Wanted
from grader.quiz.interview.task import MINUTES, Done, Interview, Ticked
from grader.quiz.interview.weakness import weakness
from tests.quiz.interview.conftest import NOON, ROUND, task

POOL = [
    task(f"q-{level}-{at}", level, f"topic-{at % 5}", minutes=MINUTES[level]) for level in LEVELS for at in range(10)
]
SMALL = rounds.parse(ROUND, "small.md", "small")


def chosen(level: str = "senior", minutes: float = 30, seed: int = 1, **more: Any) -> list[str]:
    return [each.id for each in choose.choose(Wanted(level, minutes, **more), POOL, [], seed)[0]]


def suited(minutes: float, seed: int, past: list[set[str]], weak: dict[str, float]) -> list[str]:
    """What is asked of somebody with such a past, who names no seed."""
    wanted = Wanted("mid", minutes)
    return chosen("mid", minutes, choose.seed_for(wanted, POOL, [], weak, past, random.Random(seed)))


@given(st.sampled_from(LEVELS), st.integers(8, 200), st.integers(0, 2**32))
def test_what_is_chosen_fits_and_is_of_the_level_asked(level: str, minutes: int, seed: int) -> None:
    wanted = Wanted(level, minutes)
    found, _ = choose.choose(wanted, POOL, [], seed)
    ids = [each.id for each in found]
    ranks = [LEVELS.index(each.level) for each in found]
    assert sum(each.minutes for each in found) <= minutes
    assert len(set(ids)) == len(ids)
    assert ranks == sorted(ranks, reverse=True)  # the easier last
    assert sum(each.level == level for each in found) == min(10, minutes // MINUTES[level])
    assert found == choose.choose(wanted, POOL, [], seed)[0]


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.lists(st.sets(st.sampled_from([each.id for each in POOL])), max_size=5))
def test_recent_questions_wait_while_there_are_others(seed: int, past: list[set[str]]) -> None:
    recent = {each for asked in past[-3:] for each in asked}
    found = [each for each in suited(12, seed, past, {}) if each in recent]
    there = sum(each.level == "mid" and each.id not in recent for each in POOL)
    assert len(found) == max(0, 3 - there)


def test_what_one_is_weak_at_is_asked_more_often() -> None:
    weak = {f"topic-{at}": float(at == 3) for at in range(5)}
    topics = {each.id: each.topic for each in POOL}
    counts = Counter(topics[suited(4, seed, [], weak)[0]] for seed in range(40))
    assert counts["topic-3"] > 20
    assert len(counts) > 1  # what one knows is asked, too


def test_other_seeds_choose_other_questions() -> None:
    assert len({tuple(chosen(seed=seed)) for seed in range(20)}) > 10


def test_only_the_topics_asked_for() -> None:
    topics = {each.id: each.topic for each in POOL}
    assert {topics[each] for each in chosen(topics=("topic-1", "topic-2"))} <= {"topic-1", "topic-2"}


def test_a_round_takes_its_time_and_its_questions() -> None:
    pool = [*POOL, task("q-design", "senior", "topic-1", minutes=4)]
    found, design = choose.choose(Wanted("senior", 60, ("topic-1", "design")), pool, [SMALL], 1)
    assert design is SMALL
    assert sum(each.minutes for each in found) <= 50
    assert "q-design" not in [each.id for each in found]


@pytest.mark.parametrize(
    ("level", "minutes", "topics", "there"),
    [
        ("senior", 44, (), False),
        ("mid", 60, (), False),
        ("senior", 60, ("topic-1",), False),
        ("principal", 45, (), True),
    ],
)
def test_a_round_comes_with_time_level_and_topic(
    level: str, minutes: float, topics: tuple[str, ...], there: bool
) -> None:
    assert (choose.choose(Wanted(level, minutes, topics), POOL, [SMALL], 1)[1] is not None) == there


def test_the_round_that_was_not_held_longest_is_next() -> None:
    other, wanted = replace(SMALL, name="other"), Wanted("senior", 45)
    past = [{"small"}, {"q-x"}, {"other"}]
    seed = choose.seed_for(wanted, POOL, [SMALL, other], {}, past, random.Random(1))
    assert choose.choose(wanted, POOL, [SMALL, other], seed)[1] is SMALL
    assert choose.choose(replace(wanted, round="small"), POOL, [SMALL, other], seed) == choose.choose(
        wanted, POOL, [SMALL, other], seed
    )  # named, it changes no question


def test_a_round_by_name_may_be_all_there_is() -> None:
    assert choose.choose(Wanted("mid", 10, (), "small"), POOL, [SMALL], 1) == ([], SMALL)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted("mid", 9, (), "small"), "the round small takes 10 minutes: give it --minutes 10 or more"),
        (Wanted("mid", 30, (), "smal"), "no round is called 'smal'; did you mean 'small'?"),
        (Wanted("mid", 30, ("design",)), "there is no question of level mid or below about design"),
        (Wanted("mid", 3), "no question of level mid fits into 3 minutes; the shortest takes 4"),
    ],
)
def test_what_cannot_be_chosen_is_said(wanted: Wanted, said: str) -> None:
    with pytest.raises(DeckError, match=said.replace("?", r"\?")):
        choose.choose(wanted, POOL, [SMALL], 1)


def test_topics_chapters_and_areas() -> None:
    topics, areas = {"cap": "02", "pacelc": "02", "ddp": "07", "silent": "09"}, {"training": {"ddp"}}
    asked = {"cap", "ddp"}
    assert choose.topics_of(["02", "training"], topics, areas, asked) == ("cap", "ddp")
    assert choose.topics_of(["cap"], topics, areas, asked) == ("cap",)
    for said, sentence in (("capp", "did you mean 'cap'"), ("silent", "no interview question is about 'silent'")):
        with pytest.raises(DeckError, match=sentence):
            choose.topics_of([said], topics, areas, asked)


def card(name: str, topic: str) -> Card:
    return Card(name, "01", "mid", topic, "qa", "?", "!")


def interview(topic: str, earned: int) -> Interview:
    done = Done(
        "q",
        "q",
        "t",
        "a",
        topic,
        "mid",
        "?",
        4,
        60,
        "x",
        "rated",
        tuple(Ticked(str(at), at < earned) for at in range(4)),
    )
    return Interview("k", "mid", 30, 1, NOON.isoformat(), NOON.isoformat(), 1, done=(done,))


def test_nothing_known_is_said_about_topics_without_evidence() -> None:
    assert weakness([card("a", "t")], {}, [], [], {}, NOON) == {}


def test_weakness_grows_with_forgetting_and_lapses() -> None:
    memory = schedule.review(None, schedule.EASY, NOON)
    cards = [card("a", "t")]
    soon, late = (weakness(cards, {"a": memory}, [("a", 4)], [], {}, NOON + timedelta(days=d))["t"] for d in (1, 300))
    lapsed = weakness(cards, {"a": memory}, [("a", 1), ("a", 1), ("a", 4)], [], {}, NOON)["t"]
    assert 0 <= soon < late < 1
    assert lapsed == pytest.approx(2 / 3)
    assert weakness(cards, {"a": memory}, [], [], {}, NOON - timedelta(days=9))["t"] == 0  # the clock went back


def test_newer_interviews_count_more() -> None:
    better, worse = [interview("t", 0), interview("t", 4)], [interview("t", 4), interview("t", 0)]
    assert weakness([], {}, [], better, {}, NOON)["t"] < 0.5 < weakness([], {}, [], worse, {}, NOON)["t"]


def test_exercises_count_less_than_interviews() -> None:
    assert weakness([], {}, [], [], {"t": 0.25}, NOON) == {"t": 0.75}
    assert weakness([], {}, [], [interview("t", 0)], {"t": 1.0}, NOON)["t"] > 0.5
