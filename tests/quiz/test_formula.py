"""Arithmetic on cards: what is computed, what is refused; and every number of the course, from its formula."""

from __future__ import annotations

import math

import decks
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader.quiz.deck import Card, Number
from grader.quiz.formula import compute, disagreement

GOOD = {
    "2 * (8 - 1) / 8 * 400": 700,
    " -2 ** 2 + +1": -3,
    "2 ** 40 // 3 % 7": 2**40 // 3 % 7,
    "1_000 + 1.5e3 + 2.": 2502,
    "min(3, max(1, 2), 9)": 2,
    "ceil(10000 / 32) + floor(2.9)": 315,
    "sqrt(16) + log2(8) + log10(100) + log(exp(1))": 10,
    "round(2 / 3, 2) + round(2.6)": 3.67,
    "2 * sin(pi / 30) + cos(0)": 2 * math.sin(math.pi / 30) + 1,
}
BAD = [
    "",
    "1 +",
    "1 2",
    "()",
    "x + 1",
    "__import__('os')",
    "a.b",
    "[1]",
    "1, 2",
    "min",
    "sqrt(2)(3)",
    "1 / 0",
    "min()",
    "sqrt()",
    "sqrt(0 - 1)",
    "(0 - 1) ** 0.5",
    "9 ** 9 ** 9",
    "1e999",
    "0 ** (0 - 1)",
    "(" * 290 + "1",
    "'a' * 9",
]


@pytest.mark.parametrize(("formula", "value"), GOOD.items())
def test_a_formula_is_computed(formula: str, value: float) -> None:
    assert compute(formula) == pytest.approx(value)


@pytest.mark.parametrize("formula", BAD)
def test_what_is_no_formula_is_refused_in_one_sentence(formula: str) -> None:
    with pytest.raises(ValueError, match=r"\Ait (cannot be computed: [^\n]+|has no finite value)\Z"):
        compute(formula)


@given(st.text() | st.text(st.sampled_from("0123456789.e+-*/%(), minsqrtpi_"), max_size=60))
@example("A=0")
@example("0;0")
def test_any_text_has_a_value_or_a_sentence(text: str) -> None:
    try:
        value = compute(text)
    except ValueError:
        return
    assert math.isfinite(value)


@pytest.mark.parametrize(
    ("formula", "written", "tolerance", "agrees"),
    [
        ("2 / 3", "0.667", 0.02, True),
        ("2 / 3", "0.67", 0.02, True),
        ("2 / 3", "0.7", 0.02, False),  # rounded so far that the exact answer would be called wrong
        ("1000", "1004", 0.02, True),
        ("1000", "1006", 0.02, False),
        ("26.4", "26", 0.02, True),
        ("26.6", "26", 0.05, False),
        ("4", "4", 0.0, True),
        ("0.1 * 3", "0.3", 0.0, True),
        ("4.01", "4", 0.0, False),
        ("0", "0", 0.0, True),
    ],
)
def test_a_formula_gives_the_answer_as_it_is_written(
    formula: str, written: str, tolerance: float, agrees: bool
) -> None:
    assert (disagreement(Number(float(written), "x", tolerance, formula, written)) is None) is agrees


NUMBERS = [card for card in decks.cards() if card.number]


@pytest.mark.parametrize("card", NUMBERS, ids=lambda card: card.id)
def test_the_courses_numbers_are_what_their_formulas_give(card: Card) -> None:
    assert card.number is not None
    value, number = compute(card.number.formula), card.number
    assert value == pytest.approx(number.value, rel=max(min(number.tolerance, 0.01), 1e-12))
