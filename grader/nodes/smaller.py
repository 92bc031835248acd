"""Making a counterexample small: try what is smaller for as long as that still shows the same thing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def smallest(
    thing: T, smaller: Callable[[T], Iterable[T]], kept: Callable[[T], T | None], tries: float = math.inf
) -> T:
    """A thing of which nothing that `smaller` yields is as good any more, unless `tries` ran out.

    `kept` is asked of each candidate: what to go on with (the candidate, or even less), or None where it does not show
    the same.
    """
    while True:
        for candidate in smaller(thing):
            if tries <= 0:
                return thing
            tries -= 1
            found = kept(candidate)
            if found is not None:
                thing = found
                break
        else:
            return thing


def without_one(things: Sequence[T]) -> Iterator[list[T]]:
    """All but one, the last left out first."""
    for place in range(len(things) - 1, -1, -1):
        yield [*things[:place], *things[place + 1 :]]


def fewer(things: Sequence[T]) -> Iterator[list[T]]:
    """The first half, the second, and all but one."""
    if len(things) > 3:
        yield list(things[: len(things) // 2])
        yield list(things[len(things) // 2 :])
    yield from without_one(things)
