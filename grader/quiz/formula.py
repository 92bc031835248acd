"""The formulas of cards and rounds: arithmetic, computed by simpleeval when the decks are checked."""

from __future__ import annotations

import math
import warnings
from decimal import Decimal

import simpleeval

from grader.quiz.deck import Number

_NAMES = ("ceil", "floor", "sqrt", "log", "log2", "log10", "exp", "sin", "cos")
_CALLS = {"min": min, "max": max, "round": round} | {name: getattr(math, name) for name in _NAMES}


def compute(formula: str) -> float:
    """The value of arithmetic: numbers, + - * / // % **, parentheses, pi, and calls of min, max, sqrt and their like.

    Raises ValueError, with a sentence that says why, for whatever else, and where there is no finite value.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an assignment, or a second expression, is no formula
            value = simpleeval.simple_eval(formula, functions=_CALLS, names={"pi": math.pi})
        if math.isfinite(value):
            return float(value)
    except (simpleeval.InvalidExpression, Warning, SyntaxError, ArithmeticError, TypeError, ValueError) as error:
        raise ValueError(f"it cannot be computed: {str(error) or type(error).__name__}") from None
    raise ValueError("it has no finite value")


def disagreement(number: Number) -> str | None:
    """Why the formula does not give the answer, as it is written in the file; None if it does.

    It may be off by half a per cent or by half a unit of the last digit written, and not by more than a learner may be:
    who computes it exactly must be right.
    """
    try:
        value = compute(number.formula)
    except ValueError as error:
        return f"formula {number.formula!r}: {error}"
    exponent = Decimal(number.written).as_tuple().exponent
    unit = 10.0**exponent if isinstance(exponent, int) else 0.0
    off, slack = abs(value - number.value), 1e-9 * abs(number.value)
    if off > max(0.005 * abs(number.value), unit / 2) + slack or off > number.tolerance * abs(number.value) + slack:
        return f"formula {number.formula!r} gives {value:g}, but the answer is {number.written}"
    return None
