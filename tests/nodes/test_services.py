"""The key-value services keep what they promise, and not more than that."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.nodes.processes import services
from grader.nodes.processes.services import LinKv, LwwKv, SeqKv, answer, same

KEY = {"key": "x"}
READ = {"type": "read", **KEY}


def write(value: Any) -> dict[str, Any]:
    return {"type": "write", "value": value, **KEY}


def cas(before: Any, after: Any, create: bool = False) -> dict[str, Any]:
    return {"type": "cas", "from": before, "to": after, "create_if_not_exists": create, **KEY}


ANSWERS = [
    ([READ], {"type": "error", "code": 20}),
    ([cas(1, 2)], {"type": "error", "code": 20}),
    ([cas(1, 2, create=True)], {"type": "cas_ok"}),
    ([cas(1, 2, create=True), READ], {"type": "read_ok", "value": 2}),
    ([write(1), READ], {"type": "read_ok", "value": 1}),
    ([write(None), READ], {"type": "read_ok", "value": None}),
    ([write(1), cas(1, 2)], {"type": "cas_ok"}),
    ([write(1), cas(1, 2), READ], {"type": "read_ok", "value": 2}),
    ([write(1), cas(3, 2)], {"type": "error", "code": 22}),
    ([write(1), cas(3, 2, create=True)], {"type": "error", "code": 22}),
    ([write(1), cas(True, 2)], {"type": "error", "code": 22}),
    ([write({"a": [1]}), cas({"a": [1]}, 2)], {"type": "cas_ok"}),
    ([{"type": "write", "key": "x"}], {"type": "error", "code": 12}),
    ([{"type": "read"}], {"type": "error", "code": 12}),
    ([{"type": "delete", "key": "x"}], {"type": "error", "code": 10}),
    ([{}], {"type": "error", "code": 10}),
]


@pytest.mark.parametrize(("asked", "expected"), ANSWERS)
@pytest.mark.parametrize("name", ["lin-kv", "seq-kv"])
def test_one_caller_is_answered_alike(name: str, asked: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    service = services.start(0)[name]
    last = [answer(service, "n1", body, 0.0) for body in asked][-1]
    last.pop("text", None)
    assert last == expected


def test_keys_of_different_kinds_are_different() -> None:
    service = LinKv()
    service.handle("n1", {"type": "write", "key": 1, "value": "number"}, 0.0)
    assert service.handle("n1", {"type": "read", "key": "1"}, 0.0)["code"] == 20


@pytest.mark.parametrize(("one", "other", "equal"), [(1, 1.0, True), (1, True, False), ("1", 1, False), ([], [], True)])
def test_values_are_compared_as_json(one: Any, other: Any, equal: bool) -> None:
    assert same(one, other) is equal


STEP = st.tuples(st.sampled_from(["n1", "n2"]), st.sampled_from([READ, write(1), write(2), cas(1, 2), cas(2, 1)]))


def outcome(body: dict[str, Any], given_: dict[str, Any]) -> tuple[Any, ...]:
    return (given_["type"], given_.get("value"), given_.get("code"))


def explained(steps: list[tuple[str, dict[str, Any]]], seen: list[tuple[Any, ...]]) -> bool:
    """Whether some order of all steps that keeps each node's own order gives these answers, by trying them all."""
    mine = {node: [i for i, (who, _) in enumerate(steps) if who == node] for node in ("n1", "n2")}
    for places in itertools.combinations(range(len(steps)), len(mine["n1"])):
        left = {node: iter(order) for node, order in mine.items()}
        model = LinKv()
        for place in range(len(steps)):
            step = next(left["n1" if place in places else "n2"])
            if outcome(steps[step][1], model.handle("n", steps[step][1], 0.0)) != seen[step]:
                break
        else:
            return True
    return False


@given(st.lists(STEP, max_size=9), st.integers(0, 1000))
def test_seq_kv_is_sequentially_consistent(steps: list[tuple[str, dict[str, Any]]], seed: int) -> None:
    service = SeqKv(random.Random(seed))
    seen = [outcome(body, service.handle(node, body, 0.0)) for node, body in steps]
    assert explained(steps, seen)


def test_seq_kv_reads_what_is_stale() -> None:
    service = SeqKv(random.Random(1))
    seen = []
    for value in range(100):
        service.handle("n1", write(value), 0.0)
        assert service.handle("n1", READ, 0.0)["value"] == value, "a node sees its own writes"
        seen.append(service.handle("n2", READ, 0.0).get("value", -1))
    assert seen == sorted(seen)
    assert any(late < value for value, late in enumerate(seen))


def test_lww_kv_loses_what_it_acknowledged() -> None:
    service = LwwKv(random.Random(1))
    lost = 0
    for value in range(100):
        assert service.handle("n1", write(value), float(value))["type"] == "write_ok"
        lost += service.handle("n1", READ, value + 0.5).get("value") != value
    assert 0 < lost < 100


def test_lww_kv_agrees_once_nobody_writes() -> None:
    service = LwwKv(random.Random(2))
    for value in range(20):
        service.handle("n1", write(value), 0.001 * value)
    seen = {service.handle("n1", READ, 100.0 + number)["value"] for number in range(50)}
    assert len(seen) == 1
