"""Whether a history is linearizable (Herlihy and Wing 1990), and where it is not, the operations that contradict.

Each key is searched on its own. Of a history that has no order, the shortest beginning without one is looked for: the
operation that ends it is the one that cannot be placed. Then operations are let loose one after another (they may take
effect any time after their call, or never) as long as there still is no order: what is left contradicts itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grader.nodes.histories import explain, models
from grader.nodes.histories.history import Key, Operation
from grader.nodes.histories.models import Model
from grader.nodes.histories.problem import compiled
from grader.nodes.histories.search import Found, search
from grader.nodes.histories.words import name

STEPS = 1_000_000  # that a check may take: some seconds, and some hundred MiB
_STEPS_TO_EXPLAIN = 100_000
_STEPS_TO_LOOSEN, _STEPS_LOOSENING = 1_000, 20_000  # in one try, where what takes longer is kept, and in all of them

Valid = bool | Literal["unknown"]
Consistency = Literal["linearizable", "sequential"]


@dataclass(frozen=True)
class Checked:
    """What a check found.

    `order` is an order that explains all operations; where there is none, the longest beginning of the history of `key`
    that can be ordered, in its order. `stuck` is the operation that no order can place, `pair` the operations that
    contradict, `stuck` last. `reason` is a sentence, None if the history is valid.
    """

    valid: Valid
    operations: int
    model: str
    consistency: Consistency
    steps: int
    order: tuple[Operation, ...]
    reason: str | None = None
    key: Key = None
    stuck: Operation | None = None
    pair: tuple[Operation, ...] = ()

    def to_json(self, seconds: float) -> dict[str, Any]:
        """The object that `rankup history check --json` prints."""
        return {
            "valid": self.valid,
            "operations": self.operations,
            "seconds": round(seconds, 4),
            "model": self.model,
            "reason": self.reason,
        }


def linearizable(operations: Sequence[Operation], model: Model | str, budget: int = STEPS) -> Checked:
    """Check a history, in the order in which operations began, against `model`.

    The search takes at most `budget` steps for all keys together (exact counts, so the verdict is the same on every
    machine); where they are spent, `valid` is "unknown". Raises BadRequest for operations that the model does not have.
    """
    model = models.find(model) if isinstance(model, str) else model
    steps = 0
    orders: list[tuple[Operation, ...]] = []
    unknown: tuple[Key, Found] | None = None
    keys = models.by_key(operations, model).items()
    for key, own in sorted(keys, key=lambda each: len(each[1])):  # the easy ones first, while there is a budget
        found = search(compiled(own, model), budget - steps)
        steps += found.steps
        if found.exists is False:
            return _violation(operations, own, key, model, found, steps)
        if found.exists is None and unknown is None:
            unknown = key, found
        orders.append(found.order)
    if unknown is not None:
        key, found = unknown
        reason = (
            f"No answer within {budget:,} steps. An order of {len(found.order)} operations on {name(key)} was found, "
            "but neither an order of all of them nor a proof that there is none."
        )
        return Checked("unknown", len(operations), model.name, "linearizable", steps, found.order, reason, key)
    return Checked(True, len(operations), model.name, "linearizable", steps, merged(orders))


def points(order: Sequence[Operation]) -> list[tuple[float, int]]:
    """When each operation of an order may have taken effect, as (seconds, place among all events): between its call and
    its return, as early as the order allows."""
    found = []
    time, place = 0.0, -1
    for operation in order:
        time, place = max(time, operation.start), max(place, operation.called)
        found.append((time, place))
    return found


def merged(orders: Sequence[Sequence[Operation]]) -> tuple[Operation, ...]:
    """One order of all keys from one of each (locality: by their points)."""
    if len(orders) == 1:
        return tuple(orders[0])
    placed = [(point, operation) for order in orders for point, operation in zip(points(order), order, strict=True)]
    return tuple(operation for _, operation in sorted(placed, key=lambda each: each[0]))


def _violation(
    operations: Sequence[Operation], own: list[Operation], key: Key, model: Model, found: Found, steps: int
) -> Checked:
    stuck = _first_stuck(own, model, found)
    before = search(compiled(own, model, until=stuck.returned), _STEPS_TO_EXPLAIN)
    reason, pair = explain.sentence(own, lambda: _core(own, model, stuck), stuck, model, operations)
    return Checked(
        False, len(operations), model.name, "linearizable", steps, before.order, reason, key, stuck, tuple(pair)
    )


def _first_stuck(own: list[Operation], model: Model, found: Found) -> Operation:
    """The operation whose return ends the shortest beginning that has no order. It observes something: whatever else
    returns could have taken effect just before.

    `found` is what the search of all gave: all that returned before the first operation missing in its order did fit.
    """
    ends = sorted(
        (one for one in own if one.status == "unseen" or (one.status == "ok" and one.f in ("read", "cas"))),
        key=lambda one: one.returned,
    )
    taken = {one.called for one in found.order}
    fits = min(one.returned for one in own if one.status in ("ok", "unseen") and one.called not in taken)
    # up to that of `high`, it is known that there is no order; up to that of `low` - 1, that there is one
    low, high = sum(one.returned < fits for one in ends), len(ends) - 1
    step = 1
    while low < high:
        middle = min(low + step - 1, high - 1) if step else (low + high) // 2
        if search(compiled(own, model, ends[middle].returned + 1), _STEPS_TO_EXPLAIN).exists is False:
            high, step = middle, 0
        else:
            low, step = middle + 1, 2 * step
    return ends[high]


def _core(own: list[Operation], model: Model, stuck: Operation) -> list[Operation]:
    """The fewest operations, up to one, that still contradict when all others are let loose (delta debugging: Zeller
    and Hildebrandt 2002)."""
    until = stuck.returned + 1
    kept = [one for one in own if one.returned < until and one.status != "fail" and one is not stuck]
    size, steps = max(len(kept) // 2, 1), 0
    while kept and steps < _STEPS_LOOSENING:
        at = 0
        while at < len(kept) and steps < _STEPS_LOOSENING:
            fewer = kept[:at] + kept[at + size :]
            loose = {one.called for one in own} - {one.called for one in fewer} - {stuck.called}
            found = search(compiled(own, model, until, loose), _STEPS_TO_LOOSEN)
            steps += found.steps
            if found.exists is False:
                kept = fewer
            else:
                at += size
        if size == 1:
            break
        size = max(min(size // 2, len(kept)), 1)
    return [*kept, stuck]
