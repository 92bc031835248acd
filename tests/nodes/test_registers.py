"""The checker of registers, held against the definition: all orders of a small history."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.nodes.clients import Ask, Asked
from grader.nodes.registers import NEVER, NOTHING, Causes, Operation, Unwritten, conflict, operation

Row = tuple[str, str, float, float]


def op(what: str, value: str, start: float, end: float, node: str = "n1", done: bool | None = True) -> Operation:
    asked = Asked("c1", Ask(node, {"type": what, "key": "x"}), start)
    return Operation(what, "x", value, start, end, done if end < NEVER else None, asked)


def explained(history: list[Operation]) -> bool:
    """Whether some order does, tried one after another; a write that nobody confirmed may be left out."""
    must = [one for one in history if one.end < NEVER]
    may = [one for one in history if one.end == NEVER]
    chosen = [[one for place, one in enumerate(may) if bits >> place & 1] for bits in range(2 ** len(may))]
    return any(_in_order(order) for some in chosen for order in permutations(must + some))


def _in_order(order: tuple[Operation, ...]) -> bool:
    state = NOTHING
    for place, one in enumerate(order):
        if any(later.end < one.start for later in order[place + 1 :]):
            return False
        if one.what == "read" and one.value != state:
            return False
        if one.what == "write":
            state = one.value
    return True


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    times = st.integers(0, 12)
    writes = draw(st.lists(st.tuples(times, times, st.booleans()), max_size=3))
    found = [
        op("write", str(place), min(a, b), max(a, b) + 0.5 if ends else NEVER)
        for place, (a, b, ends) in enumerate(writes)
    ]
    for value in draw(st.lists(st.sampled_from([NOTHING, *map(str, range(len(writes)))]), max_size=4)):
        a, b = draw(times), draw(times)
        found.append(op("read", value, min(a, b) + 0.25, max(a, b) + 0.75))
    return found


@given(histories())
def test_a_conflict_is_found_exactly_where_no_order_explains_a_history(history: list[Operation]) -> None:
    assert (conflict(history) is None) == explained(history)


def test_a_read_of_what_was_refused_is_told_with_the_write() -> None:
    write = op("write", "1", 0, NEVER)
    refused = Operation("write", "x", "1", 0, NEVER, False, write.asked)
    read = op("read", "1", 2, 3)
    assert conflict([refused, read]) == Unwritten(read, refused)


def test_a_write_follows_what_its_node_showed_and_what_that_followed() -> None:
    history = [
        op("write", "1", 0, 1, "n1"),
        op("read", "1", 2, 3, "n2"),
        op("write", "2", 4, 5, "n2"),
        op("write", "3", 4, 5, "n3"),
        op("read", "2", 6, 7, "n3"),
        op("write", "4", 8, NEVER, "n3"),
    ]
    causes = Causes(history)
    assert causes.followed("2") == {NOTHING, "1"}
    assert causes.followed("3") == {NOTHING}
    assert causes.followed("4") == {NOTHING, "1", "2", "3"}
    assert [getattr(causes.overtook(value), "value", None) for value in ("1", "2", "3", "4")] == ["2", None, None, None]


@pytest.mark.parametrize(
    ("request_", "answer", "done", "value"),
    [
        ({"type": "write", "value": 1}, {"type": "write_ok"}, True, "1"),
        ({"type": "write", "value": 1}, {"type": "error", "code": 11}, False, "1"),
        ({"type": "write", "value": 1}, {"type": "error", "code": 0}, None, "1"),
        ({"type": "write", "value": 1}, None, None, "1"),
        ({"type": "read"}, {"type": "read_ok", "value": {"b": 1, "a": 2}}, True, '{"a": 2, "b": 1}'),
        ({"type": "read"}, {"type": "error", "code": 20}, True, NOTHING),
        ({"type": "read"}, {"type": "error", "code": 11}, None, ""),
    ],
)
def test_what_an_answer_says_of_an_operation(
    request_: dict[str, object], answer: dict[str, object] | None, done: bool | None, value: str
) -> None:
    asked = Asked("c1", Ask("n1", {"key": 7, **request_}), 1.0, answer, 2.0 if answer else None)
    found = operation(asked)
    assert (found is None) == (value == "")
    if found is not None:
        assert (found.key, found.value, found.done, found.end < NEVER) == ("7", value, done, done is True)
