"""Functions that jobs are given: what is mapped, combined and reduced. Known in the box and outside, by their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any


def named(name: str) -> Any:
    """The function of that name."""
    return globals()[name]


def words(split: str) -> Iterable[tuple[str, int]]:
    """(word, 1) for each word of a text."""
    return [(word, 1) for word in split.split()]


def changes(rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, int]]:
    """(place, change) for each row, one after another: no list, and to be gone through once."""
    return ((place, change) for place, change in rows)


def total(key: str, values: Sequence[int]) -> int:
    """Their sum: associative and commutative, so it may combine, too."""
    return sum(values)


def visits(log: Sequence[Sequence[str]]) -> Iterable[tuple[str, str]]:
    """(page, visitor) for each line (visitor, page) of a log."""
    return [(page, visitor) for visitor, page in log]


def distinct(key: str, values: Sequence[str]) -> int:
    """How many different values there are: not to be had from parts that were counted apart."""
    return len(set(values))


def readings(rows: Sequence[Sequence[Any]]) -> Iterable[tuple[str, float]]:
    """(sensor, value) for each row."""
    return [(sensor, value) for sensor, value in rows]


def median(key: str, values: Sequence[float]) -> float:
    """The lower median of all values."""
    return sorted(values)[(len(values) - 1) // 2]


def sums(rows: Sequence[Sequence[Any]]) -> Iterable[tuple[str, list[float]]]:
    """(sensor, [value, 1]) for each row."""
    return [(sensor, [value, 1]) for sensor, value in rows]


def add_up(key: str, values: Sequence[Sequence[float]]) -> list[float]:
    """Sums and counts together: what a mean can be combined from."""
    return [sum(value for value, _ in values), sum(count for _, count in values)]


def mean(key: str, values: Sequence[Sequence[float]]) -> float:
    """The mean of [sum, count] pairs."""
    whole, count = add_up(key, values)
    return whole / count


def largest(key: str, values: Sequence[float]) -> float:
    """The largest of all values."""
    return max(values)


def spelled(key: str, values: list[Any]) -> int:
    """How many characters key and values have as text. It appends to the list of values, which is its own."""
    values.append(key)
    return sum(len(str(value)) for value in values)


def views(log: Sequence[Sequence[str]]) -> Iterable[tuple[str, int]]:
    """(page, 1) for each line (visitor, page) of a log."""
    return [(page, 1) for _, page in log]
