"""What serializable_store says of histories of transactions, and that its plans are what their names say."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from grader.exercises.serializable_store import answered, plans, serial
from grader.exercises.serializable_store.answered import Problem, Status, Txn


def txn(index: int, text: str, called: float, returned: float = math.inf, status: Status = "ok") -> Txn:
    """A transaction from words: "x+1" appends 1 to x, "x=1,2" reads [1, 2] of x."""
    ops: list[tuple[Any, Any, Any]] = []
    for word in text.split():
        if "+" in word:
            key, _, value = word.partition("+")
            ops.append(("append", key, int(value)))
        else:
            key, _, value = word.partition("=")
            ops.append(("r", key, [int(each) for each in value.split(",") if each]))
    answer = {"type": "error", "code": 30} if status == "fail" else None
    return Txn(index, f"c{index}", "n1", tuple(ops), status, called, returned, answer)


def problem(*txns: Txn, crashed: bool = False) -> Problem | None:
    return serial.values(txns) or serial.orders(txns) or serial.last(txns, crashed) or serial.cycle(txns)


W = txn(0, "x+1 y+2", 1.0, 1.1)

RIGHT = {
    "a reader before": (W, txn(1, "x= y=", 1.0, 1.1)),
    "a reader after": (W, txn(1, "x=1 y=2", 1.2, 1.3)),
    "unknown, and there later": (txn(0, "x+1", 1.0, status="info"), txn(1, "x=", 2.0, 2.1), txn(2, "x=1", 3.0, 3.1)),
    "unknown, and never there": (txn(0, "x+1 y+2", 1.0, status="info"), txn(1, "x= y=", 9.0, 9.1)),
    "own appends": (txn(0, "x= x+1 x=1 x+3 x=1,3", 1.0, 1.1), txn(1, "x=1,3", 2.0, 2.1)),
    "failed, and never there": (txn(0, "x+1", 1.0, 1.1, "fail"), txn(1, "x=", 2.0, 2.1)),
    "the same moment overlaps": (txn(0, "x+1", 1.0, 2.0), txn(1, "x=", 2.0, 2.1), txn(2, "x=1", 3.0, 3.1)),
}

WRONG = {
    "nobody's value": ("wrong_result", (W, txn(1, "x=7 y=2", 1.2, 1.3))),
    "from the future": ("wrong_result", (txn(1, "x=1", 0.1, 0.2), W)),
    "twice": ("lost_or_duplicated", (W, txn(1, "x=1,1 y=2", 1.2, 1.3))),
    "of who failed": ("not_atomic", (txn(0, "x+1", 1.0, 1.1, "fail"), txn(1, "x=1", 2.0, 2.1))),
    "own append not seen": ("wrong_result", (txn(0, "x+1 x=", 1.0, 1.1),)),
    "own append seen early": ("wrong_result", (txn(0, "x=1 x+1", 1.0, 1.1),)),
    "two orders of a key": (
        "not_linearizable",
        (txn(0, "x+1", 1, 3), txn(1, "x+2", 1, 3), txn(2, "x=1,2", 4, 5), txn(3, "x=2,1", 6, 7)),
    ),
    "half of it for good": ("not_atomic", (W, txn(1, "x=1 y=", 9.0, 9.1))),
    "half of an unknown one": ("not_atomic", (txn(0, "x+1 y+2", 1.0, status="info"), txn(1, "x= y=2", 9.0, 9.1))),
    "half seen meanwhile": ("not_linearizable", (W, txn(1, "x=1 y=", 1.0, 1.1), txn(2, "x=1 y=2", 2.0, 2.1))),
    "acknowledged and gone": ("lost_or_duplicated", (W, txn(1, "x= y=", 9.0, 9.1))),
    "stale": ("not_linearizable", (txn(0, "x+1", 1, 2), txn(1, "x=", 3, 4), txn(2, "x=1", 5, 6))),
    "write skew": (
        "not_linearizable",
        (txn(0, "x= y+1", 1, 2), txn(1, "y= x+2", 1, 2), txn(2, "x=2 y=1", 3, 4)),
    ),
    "a read before and an append after": (
        "not_linearizable",
        (
            txn(0, "x= y=2", 1, 9),
            txn(1, "x+1", 2, 3),
            txn(2, "y+2", 4, 5),
            txn(3, "x=1 y=2", 10, 11),
        ),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_history_has_no_problem(name: str) -> None:
    assert problem(*RIGHT[name]) is None


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_is_told_by_its_kind(name: str) -> None:
    kind, history = WRONG[name]
    found = problem(*history)
    assert found is not None
    assert found.kind == kind, found.text
    assert found.shown


def test_what_is_gone_after_a_crash_was_not_durable() -> None:
    found = problem(W, txn(1, "x= y=", 9.0, 9.1), crashed=True)
    assert found is not None
    assert found.kind == "not_durable"


REQUEST = {"txn": [["append", "x", 1], ["r", 7, None]]}


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ({"type": "txn_ok", "txn": [["append", "x", 1], ["r", 7, [3]]]}, ""),
        ({"type": "txn_ok", "txn": [["append", "x", 1], ["r", 7, None]]}, ""),
        ({"type": "error", "code": 30}, ""),
        ({"type": "error"}, "code"),
        ({"type": "write_ok"}, "neither"),
        ({"type": "txn_ok", "txn": [["append", "x", 1]]}, "1 operation"),
        ({"type": "txn_ok", "txn": [["r", 7, [3]], ["append", "x", 1]]}, "operation 1"),
        ({"type": "txn_ok", "txn": [["append", "x", [1]], ["r", 7, [3]]]}, "appends as"),
        ({"type": "txn_ok", "txn": [["append", "x", 1], ["r", "7", [3]]]}, "operation 2"),
        ({"type": "txn_ok", "txn": [["append", "x", 1], ["r", 7, "3"]]}, "Fill in"),
    ],
)
def test_the_shape_of_answers(answer: dict[str, Any], wrong: str) -> None:
    found = answered.shape(REQUEST, answer)
    assert wrong in found
    assert bool(found) == bool(wrong)


def test_keys_live_where_the_statement_says() -> None:
    nodes = ["n9", "n10", "n2"]
    assert plans.owner("x", nodes) == sorted(nodes)[0x8CDC1683 % 3]  # crc32 of "x"
    drawn = plans.Drawn(random.Random(1), nodes)
    for node in nodes:
        assert plans.owner(drawn.key(node), nodes) == node
        assert plans.owner(drawn.named("x", node), nodes) == node
    assert len(set(map(str, drawn.keys))) == 6
