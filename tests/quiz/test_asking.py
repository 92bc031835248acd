"""What each kind of card asks, and what counts as right."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.quiz import asking
from grader.quiz.deck import Card, Number
from grader.quiz.folder import load_folder


@pytest.fixture
def cards(seven: Path) -> dict[str, Card]:
    return {card.kind: card for deck in load_folder(seven) for card in deck.cards}


def number(value: float, unit: str) -> Card:
    return Card("n", "d", "mid", "t", "number", "?", "!", Number(value, unit))


NUMBERS = [
    ("700", "MB", 700, True), ("7e2 MB", "MB", 700, True), ("0.7 gb", "MB", 700, True), ("700,000 kB", "MB", 700, True),
    ("690", "MB", 700, True), ("660", "MB", 700, False), ("1 GiB", "MiB", 1024, True), ("1 GB", "GiB", 1, False),
    ("2 h", "min", 120, True), ("0.5 s", "ms", 500, True), ("-3", "1", -3, True), ("90%", "percent", 90, True),
    ("0.366", "%", 36.6, True), ("0.366 %", "%", 36.6, False), ("112e9", "GB", 112, True), ("0.02", "ms", 20, True),
    ("3600", "h", 1, False), ("33 %", "1", 0.33, True), ("112 Gb", "GB", 112, False),
    ("12 replicas", "replicas", 12, True), (".5", "probability", 0.5, True), ("1_000", "ranks", 1000, True),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "unit", "value", "right"), NUMBERS)
def test_numbers_with_and_without_units(typed: str, unit: str, value: float, right: bool) -> None:
    assert asking.judge(number(value, unit), typed, ()).right is right


@pytest.mark.parametrize(
    ("typed", "value", "unit", "said"),
    [
        ("112 GiB", 112, "GB", "Not 112 GiB, which is 120.3 GB: it is 112 GB."),
        ("16*8", 112, "GB", "Not 16*8, which is 128 GB: it is 112 GB."),
        ("1", 112, "GB", "Not 1: it is 112 GB."),
        ("1/2", 0.333, "probability", "Not 1/2, which is 0.5: it is 0.333."),
        ("1/3", 0.333, "probability", "Right: it is 0.333."),
    ],
)
def test_a_number_is_told_as_it_was_typed(typed: str, value: float, unit: str, said: str) -> None:
    assert asking.judge(number(value, unit), typed, ()).said == said


UNREADABLE = ["", "x", "1,5", "inf", "nan", "3 apples", "3 s", "1..2", "--1", "1e999"]


@pytest.mark.parametrize("typed", UNREADABLE)
def test_what_is_no_number_is_told(typed: str) -> None:
    with pytest.raises(
        asking.UnreadableError,
        match=r"^(That is not a number|That number is too large|.* does not fit here. Write the answer in MB)",
    ):
        asking.judge(number(700, "MB"), typed, ())


@pytest.mark.parametrize("typed", ["2 3", "3,2", "23", "2, 3"])
def test_all_right_options_and_no_other_are_right(cards: dict[str, Card], typed: str) -> None:
    assert asking.judge(cards["choice"], typed, (0, 1, 2)).said == "Right: 2 and 3."


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("2", "Not right: 3 is missing."),
        ("123", "Not right: 1 is wrong."),
        ("1", "Not right: 1 is wrong; 2 and 3 are missing."),
    ],
)
def test_a_wrong_choice_is_told(cards: dict[str, Card], typed: str, said: str) -> None:
    assert asking.judge(cards["choice"], typed, (0, 1, 2)).said == said


def test_options_are_explained_as_they_were_shown_and_picked(cards: dict[str, Card]) -> None:
    told = asking.answer(cards["choice"], (2, 0, 1), (1, 2)).split("\n")
    assert [line[:30] for line in told if line[:1].isdigit()] == [
        "1. **Right, and you chose it:*", "2. **Wrong, and you chose it:*", "3. **Right, and you missed it:*"[:30],
    ]  # fmt: skip
    assert "   Its root sends everything twice." in told
    assert told[-1] == cards["choice"].explanation.split("\n")[-1]
    assert "missed" not in asking.answer(cards["choice"], (2, 0, 1), ())


@pytest.mark.parametrize(("order", "typed"), [((2, 0, 1), "2 3 1"), ((1, 0, 2), "213"), ((2, 1, 0), "3>2>1")])
def test_the_right_order_is_by_the_numbers_shown(cards: dict[str, Card], order: tuple[int, ...], typed: str) -> None:
    assert asking.judge(cards["order"], typed, order).right


def test_a_wrong_order_is_told_the_right_one(cards: dict[str, Card]) -> None:
    assert asking.judge(cards["order"], "1 2 3", (2, 0, 1)).said == "Not right: the right order is 2 3 1."


@pytest.mark.parametrize(
    ("kind", "typed"),
    [
        ("choice", "4"),
        ("choice", "1 1"),
        ("choice", "a"),
        ("order", "1 2"),
        ("order", "1 2 4"),
        ("bug", "4"),
        ("bug", "0"),
    ],
)
def test_numbers_that_are_not_shown_are_told(cards: dict[str, Card], kind: str, typed: str) -> None:
    with pytest.raises(asking.UnreadableError, match=r"^Type .*\d"):
        asking.judge(cards[kind], typed, (0, 1, 2))


@pytest.mark.parametrize(("typed", "right"), [("2", True), ("line 2", True), ("3", False)])
def test_a_bugs_line(cards: dict[str, Card], typed: str, right: bool) -> None:
    assert asking.judge(cards["bug"], typed, ()).right is right


def test_the_lines_of_a_bug_are_numbered(cards: dict[str, Card]) -> None:
    assert "1  def shift(x):\n2      dist.send(x, right)\n3      dist.recv(got, left)\n```" in asking.question(
        cards["bug"]
    )


def test_shuffles_are_by_seed_and_never_the_right_order(cards: dict[str, Card]) -> None:
    orders = [asking.shuffled(cards["order"], str(seed)) for seed in range(50)]
    assert orders == [asking.shuffled(cards["order"], str(seed)) for seed in range(50)]
    assert (0, 1, 2) not in orders
    assert len(set(orders)) == 5
    assert len({asking.shuffled(cards["choice"], str(seed)) for seed in range(50)}) == 6


@pytest.mark.parametrize("kind", ["number", "choice", "order", "bug"])
def test_who_does_not_know_is_told(cards: dict[str, Card], kind: str) -> None:
    said = asking.judge_nothing(cards[kind], (2, 0, 1))
    assert said in {"It is 700 MB.", "The right answer is 1 and 3.", "The right order is 2 3 1.", "It is line 2."}
