"""Arithmetic in the text of a card, such as `2 * (8 - 1) / 8 * 400`: computed by a walk over its syntax tree."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from decimal import Decimal

from grader.quiz.deck import Number

LONGEST = 300  # characters

_TOKEN = re.compile(r"\s+|\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?|[a-z]+\d*|\*\*|//|[-+*/%(),]")
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_CALLS: dict[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "ceil": math.ceil,
    "floor": math.floor,
    "sqrt": math.sqrt,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "exp": math.exp,
    "sin": math.sin,
    "cos": math.cos,
    "round": round,
}
_NAMES = {"pi": math.pi}


def compute(formula: str) -> float:
    """The value of arithmetic: numbers, + - * / // % **, parentheses, pi, and calls of min, max, sqrt and their like.

    Raises ValueError, with one sentence that says why, for whatever else, and where there is no finite value.
    """
    if len(formula) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} characters")
    at = 0
    while at < len(formula):
        found = _TOKEN.match(formula, at)
        if found is None:
            raise ValueError(f"{formula[at]!r} is no arithmetic")
        word = found[0]
        if word[0].isalpha() and word not in _CALLS and word not in _NAMES:
            raise ValueError(f"{word!r} is not known here; known are {', '.join([*_CALLS, *_NAMES])}")
        at = found.end()
    try:
        tree = ast.parse(formula.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("it is no arithmetic that can be read") from None
    try:
        value = _value(tree.body)
    except (ArithmeticError, TypeError, RecursionError) as error:
        raise ValueError(f"it has no value: {error}") from None
    if not math.isfinite(value):
        raise ValueError("it has no finite value")
    return value


def _value(node: ast.expr) -> float:
    """Computed in floats throughout: a power of integers could take for ever, one of floats overflows."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _real(_BINARY[type(op)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
            given = [_value(each) for each in args]
            if name == "round" and len(given) == 2:
                return round(given[0], int(given[1]))
            return _real(_CALLS[name](*given))
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
    raise ValueError("it is not made of numbers, operators and calls alone")


def _real(value: float | complex) -> float:
    if isinstance(value, complex):
        raise ValueError("it has no real value")
    return float(value)


def disagreement(number: Number, written: str) -> str | None:
    """Why the formula does not give the answer, which stands as `written` on the card; None if it does.

    It may be off by half a per cent or by half a unit of the last digit written, and not by more than a learner may be:
    who computes it exactly must be right.
    """
    try:
        value = compute(number.formula)
    except ValueError as error:
        return f"formula {number.formula!r}: {error}"
    exponent = Decimal(written.strip()).as_tuple().exponent
    unit = 10.0**exponent if isinstance(exponent, int) else 0.0
    off, slack = abs(value - number.value), 1e-9 * abs(number.value)
    if off > max(0.005 * abs(number.value), unit / 2) + slack or off > number.tolerance * abs(number.value) + slack:
        return f"formula {number.formula!r} gives {value:g}, and answer says {written}"
    return None
