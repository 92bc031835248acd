"""The numbers of a verdict in words: yours, what is allowed, and how the two compare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from grader.verdict import CheckResult, Measured

_SAME = 1e-6  # relative: less than that apart is rounding
_WORDS = {"s": ("faster", "slower"), "bytes": ("less", "more"), "%": ("less", "more"), "": ("less", "more")}
_BETTER = 1.05  # times: less than that is not worth a word


@dataclass(frozen=True)
class Row:
    """One number: what and where it was measured, yours, what is allowed, and how they compare."""

    what: str
    where: str
    yours: str
    allowed: str
    remark: str


def rows(checks: Iterable[CheckResult]) -> Iterator[Row]:
    """What they measured, in their order; what several measured alike once."""
    for each in dict.fromkeys(number for check in checks for number in check.measured):
        allowed = f"{'at least' if each.at_least else 'at most'} {amount(each.bound, each.unit)}"
        yield Row(each.what, each.where, amount(each.yours, each.unit), allowed, remark(each))


def amount(value: float, unit: str) -> str:
    """A number with its unit: "26,112 bytes", "268 us", "6.7 %", "1 message"."""
    if unit == "s":
        return in_seconds(value)
    if unit == "%":
        return f"{value:.3g} %"
    number = f"{value:,.0f}" if unit == "bytes" else _digits(value)
    return f"{number} {unit[:-1] if number == '1' and unit.endswith('s') else unit}".rstrip()


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def in_seconds(seconds: float) -> str:
    """A time with the unit that suits it: "12.5 us"."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns" if seconds else "0 s"


def remark(number: Measured) -> str:
    """How it compares: "3.1x faster than the flat ring", "exactly the bound", "half of what is allowed"."""
    if number.reference is not None and number.of:
        return _against(number, number.reference)
    if math.isclose(number.yours, number.bound, rel_tol=_SAME):
        return "exactly the bound"
    if number.bound <= 0:
        return ""
    share = number.yours / number.bound
    return f"{share:.3g}x the bound" if number.at_least else f"{100 * share:.3g} % of what is allowed"


def _against(number: Measured, reference: float) -> str:
    """How it compares with something else on the same input."""
    if min(number.yours, reference) <= 0:
        return f"{number.of}: {amount(reference, number.unit)}"
    less, more = _WORDS.get(number.unit, ("fewer", "more"))
    if number.yours * _BETTER <= reference:
        return f"{_digits(reference / number.yours)}x {less} than {number.of}"
    if reference * _BETTER <= number.yours:
        return f"{_digits(number.yours / reference)}x {more} than {number.of}"
    same = "the same as" if math.isclose(number.yours, reference, rel_tol=_SAME) else "about the same as"
    return f"{same} {number.of}"
