"""Whether a history is sequentially consistent (Lamport 1979): one order, in which each process keeps its own.

Time does not count here, so that a key cannot be judged on its own, and there is less to hold on to: this search is for
small histories. What is linearizable is sequentially consistent too, and that is tried first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from grader.nodes.histories import models
from grader.nodes.histories.checker import STEPS, Checked, merged
from grader.nodes.histories.history import Key, Operation, Process
from grader.nodes.histories.models import Model
from grader.nodes.histories.problem import compiled
from grader.nodes.histories.search import search
from grader.nodes.histories.words import Clock, name, whole

_Config = tuple[
    tuple[int, ...], int, tuple[Hashable, ...]
]  # taken of each process, bits of `maybe`, values of the keys
_Step = tuple[Operation, _Config]


@dataclass(frozen=True)
class _Chains:
    """Each process's operations that must take effect, in order; those that may, with the place in their process's
    chain before which they cannot."""

    chains: list[list[Operation]]
    maybe: list[tuple[int, int, Operation]]
    keys: list[Key]


def sequential(operations: Sequence[Operation], model: Model | str, budget: int = STEPS) -> Checked:
    """Check a history against `model`, in at most `budget` steps; see `checker.linearizable`.

    An operation of unknown outcome may take effect at any place after what its process had done before, or never.
    """
    model = models.find(model) if isinstance(model, str) else model
    keys = models.by_key(operations, model)
    orders, steps = [], 0
    for own in keys.values():
        found = search(compiled(own, model), budget // 4 // len(keys))
        steps += found.steps
        if not found.exists:
            break
        orders.append(found.order)
    else:
        return Checked(True, len(operations), model.name, "sequential", steps, merged(orders))
    chains = _chained(operations, list(keys))
    valid, order, more = _search(chains, model, budget - steps)
    steps += more
    if valid is True:
        return Checked(True, len(operations), model.name, "sequential", steps, order)
    if valid is None:
        reason = f"No answer within {budget:,} steps. Only {len(order)} of {len(operations)} operations are in order."
        return Checked("unknown", len(operations), model.name, "sequential", steps, order, reason)
    reason, stuck, pair = _reason(operations, chains, model, order)
    return Checked(
        False, len(operations), model.name, "sequential", steps, order, reason, stuck.key, stuck, tuple(pair)
    )


def _chained(operations: Sequence[Operation], keys: list[Key]) -> _Chains:
    places: dict[Process, int] = {}
    chains: list[list[Operation]] = []
    maybe = []
    for operation in operations:
        place = places.setdefault(operation.process, len(places))
        if place == len(chains):
            chains.append([])
        if operation.status == "info" and operation.f != "read":
            maybe.append((place, len(chains[place]), operation))
        elif operation.status not in ("fail", "info"):
            chains[place].append(operation)
    return _Chains(chains, maybe, keys)


def _search(given: _Chains, model: Model, budget: int) -> tuple[bool | None, tuple[Operation, ...], int]:
    """Depth first, each pair of what was taken and the state once."""
    chains, place_of = given.chains, {key: place for place, key in enumerate(given.keys)}
    ends = tuple(map(len, chains))
    start: _Config = ((0,) * len(chains), 0, (model.initial,) * len(given.keys))
    trail: list[Operation] = []
    longest: list[Operation] = []
    stack = [_following(start, given, model, place_of)]
    seen = {start}
    steps = 0
    if start[0] == ends:
        return True, (), 0
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
            if trail:
                trail.pop()
            continue
        steps += 1
        operation, config = step
        if config in seen:
            continue
        if steps > budget:
            return None, tuple(longest), steps
        seen.add(config)
        trail.append(operation)
        if len(trail) > len(longest):
            longest = list(trail)
        if config[0] == ends:
            return True, tuple(trail), steps
        stack.append(_following(config, given, model, place_of))
    return False, tuple(longest), steps


def _following(config: _Config, given: _Chains, model: Model, place_of: dict[Key, int]) -> Iterator[_Step]:
    """What can come next, and where it leads. What only observes comes alone: nothing is lost by taking it at once."""
    taken, maybe, states = config
    steps: list[_Step] = []
    for place, chain in enumerate(given.chains):
        if taken[place] == len(chain):
            continue
        operation = chain[taken[place]]
        key = place_of[operation.key]
        fits, after = model.step(states[key], operation)
        if not fits:
            continue
        on = (*taken[:place], taken[place] + 1, *taken[place + 1 :])
        step = operation, (on, maybe, (*states[:key], after, *states[key + 1 :]))
        if operation.f == "read" or operation.status == "unseen":
            return iter([step])
        steps.append(step)
    for number, (place, least, operation) in enumerate(given.maybe):
        if maybe >> number & 1 or taken[place] < least:
            continue
        key = place_of[operation.key]
        fits, after = model.step(states[key], operation)
        if fits and after != states[key]:
            steps.append((operation, (taken, maybe | 1 << number, (*states[:key], after, *states[key + 1 :]))))
    return iter(steps)


def _reason(
    operations: Sequence[Operation], given: _Chains, model: Model, order: Sequence[Operation]
) -> tuple[str, Operation, list[Operation]]:
    """A sentence; the operation that the longest order found could not place; those that wait for their turn there."""
    taken = set(order)
    waiting = [next(one for one in chain if one not in taken) for chain in given.chains if not taken.issuperset(chain)]
    clock = Clock.of(operations)
    stuck = min(waiting, key=lambda one: (one.f == "write", one.called))
    others = [one for one in waiting if one is not stuck]
    listed = "; ".join(f"{whole(one, clock)} on {name(one.key)}" for one in (stuck, *others)[:4])
    return (
        "No order explains the history and keeps the order of each process. The longest order found holds "
        f"{len(order)} operations. After them, none of these can come next: {listed}.",
        stuck,
        [*others, stuck],
    )
