"""Shortest cycles in a graph of transactions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_STEPS = 2_000_000  # that the search for a smaller witness may take, after a first one


@dataclass(frozen=True)
class Ways:
    """By node, where edges lead to: those of data, and those of orders. Orders are transitive: a way of several such
    edges is as good as one, and counts as one."""

    data: dict[int, dict[int, None]]
    orders: dict[int, dict[int, None]]


@dataclass(frozen=True, slots=True)
class Step:
    """An edge of a cycle; `ordered` if it is one of an order, `rw` as far as the search knows it."""

    source: int
    target: int
    ordered: bool = False
    rw: bool = False


def shortest(ways: Ways, candidates: Iterable[tuple[int, int]]) -> list[Step]:
    """The shortest cycle that begins with one of the edges `candidates`, which are of data; empty if there is none.
    After `_STEPS` steps the shortest so far."""
    edges = list(candidates)
    for source, target in edges:
        if source in ways.data.get(target, ()):
            return [Step(source, target), Step(target, source)]
    best: list[Step] = []
    left = _STEPS
    for source, target in edges:
        way, length, steps = _way(ways, target, source, _to_beat(best))
        left -= steps
        if way:
            best = [Step(source, target), *way]
            if length == 1:
                break
        if best and left < 0:
            break
    return best


def _to_beat(best: list[Step]) -> int:
    """How many edges, as they count, a way back may have to be better; many, if there is none yet."""
    if not best:
        return 1 << 60
    way = best[1:]
    return sum(not (one.ordered and at and way[at - 1].ordered) for at, one in enumerate(way)) - 1


def _way(ways: Ways, start: int, goal: int, most: int) -> tuple[list[Step], int, int]:
    """The shortest way of at most `most` edges as they count, its length, and the steps taken; empty if there is none.

    States are 2 * node, and + 1 where an order led there, after which more of the order is free.
    """
    came: dict[int, int] = {2 * start: 2 * start}
    layer, steps, length = [2 * start], 0, 0
    while layer and length < most:
        following: list[int] = []
        for state in layer:
            node = state // 2
            for targets, entered in ((ways.data.get(node, ()), 0), (() if state % 2 else ways.orders.get(node, ()), 1)):
                steps += len(targets)
                for target in targets:
                    new = 2 * target + entered
                    if new not in came:
                        came[new] = state
                        following.append(new)
        for state in following:  # it grows
            if state % 2:
                targets = ways.orders.get(state // 2, ())
                steps += len(targets)
                for target in targets:
                    if 2 * target + 1 not in came:
                        came[2 * target + 1] = state
                        following.append(2 * target + 1)
        length += 1
        for final in (2 * goal, 2 * goal + 1):
            if final in came:
                return _back(came, final), length, steps
        layer = following
    return [], 0, steps


def _back(came: dict[int, int], final: int) -> list[Step]:
    way = []
    while came[final] != final:
        way.append(Step(came[final] // 2, final // 2, final % 2 == 1))
        final = came[final]
    return way[::-1]
