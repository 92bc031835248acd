"""Sequential consistency: against trying all orders, and what tells it from linearizability."""

from __future__ import annotations

import random

import brute_force
import pytest
from test_linearizability import story

from grader.nodes.histories import models
from grader.nodes.histories.checker import linearizable
from grader.nodes.histories.history import Operation, pair
from grader.nodes.histories.sequential import sequential


def compare(count: int, seed: int) -> None:
    for number in range(count):
        draw = random.Random(seed * 1_000_000 + number)
        name = draw.choice(sorted(models.MODELS))
        model = models.MODELS[name]
        operations = brute_force.history(draw, name, 6, draw.choice((["x"], ["x", "y"])))
        found = sequential(operations, model)
        assert found.valid is brute_force.sequential(operations, model), operations
        if found.valid:
            assert linearizable(operations, model).valid is True or fits(found.order, model)
        else:
            assert found.stuck is not None
            assert found.reason


def fits(order: tuple[Operation, ...], model: models.Model) -> bool:
    """Whether the order gives every outcome and keeps that of each process."""
    states: dict[object, object] = {}
    for at, one in enumerate(order):
        ok, states[one.key] = model.step(states.get(one.key, model.initial), one)
        if not ok or any(later.process == one.process and later.before(one) for later in order[at:]):
            return False
    return True


def test_it_agrees_with_trying_all_orders() -> None:
    compare(1500, seed=1)


@pytest.mark.heavy
def test_it_agrees_with_trying_all_orders_on_many() -> None:
    compare(20_000, seed=2)


def test_a_stale_read_of_another_process_is_allowed() -> None:
    operations = story("c1 w 1 0-10", "c1 w 2 20-30", "c2 r 1 40-50")
    assert sequential(operations, "register").valid is True
    assert linearizable(operations, "register").valid is False


def test_a_process_sees_its_own_write() -> None:
    found = sequential(story("c1 w 1 0-10", "c1 r null 20-30"), "register")
    assert found.valid is False
    assert "No order explains the history and keeps the order of each process" in (found.reason or "")


def test_it_is_not_judged_key_by_key() -> None:
    """Each key alone has an order; the two together have none (Attiya and Welch 1994)."""
    events = []
    for process, own, other in (("a", "x", "y"), ("b", "y", "x")):
        for time, (f, key, value) in enumerate((("write", own, 1), ("read", other, None))):
            event = {"process": process, "f": f, "key": key, "value": value}
            events += [{**event, "type": "invoke", "time": 2 * time}, {**event, "type": "ok", "time": 2 * time + 1}]
    operations = pair(events)
    assert sequential(operations, "register").valid is False
    for key in "xy":
        assert sequential([one for one in operations if one.key == key], "register").valid is True


def test_a_budget_that_is_spent_gives_unknown() -> None:
    found = sequential(story("c1 w 1 0-10", "c1 w 2 20-30", "c2 r 1 40-50", "c2 r 2 60-70"), "register", budget=2)
    assert found.valid == "unknown"
