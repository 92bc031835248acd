"""Judges are functions of the events: small histories written by hand, and what must be said of them."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.nodes.protocol import Malformed
from grader.nodes.workloads import lin_kv
from grader.nodes.workloads.counters import sums
from grader.nodes.workloads.figures import figures, quantile
from grader.nodes.workloads.registry import WORKLOADS
from grader.nodes.workloads.topology import TOPOLOGIES
from grader.nodes.workloads.workload import Event, Op, calls

NODES = ("n1", "n2")


def events(*told: tuple[Any, ...]) -> list[Event]:
    """Requests one after the other, 20 ms apart, 10 ms long: (node, f, asked, type, value, error)."""
    found: list[Event] = []
    for number, (node, f, asked, type_, *rest) in enumerate(told):
        name, _, final = f.partition(" ")
        process = number + 10
        begun = {"process": process, "type": "invoke", "f": name, "key": None, "value": asked, "node": node}
        begun["time"] = number * 20_000_000
        ended = {**begun, "type": type_, "value": rest[0] if rest else asked, "time": begun["time"] + 10_000_000}
        if len(rest) > 1:
            ended["error"] = rest[1]
        for event in (begun, ended):
            found.append({**event, "final": True} if final else event)
    return found


def finals(*values: Any) -> list[tuple[Any, ...]]:
    return [(node, "read final", None, "ok", value) for node, value in zip(NODES, values, strict=False)]


ADD1, ADD2 = ("n1", "add", 1, "ok"), ("n2", "add", 2, "ok")
MAYBE3, REFUSED4 = ("n1", "add", 3, "info"), ("n2", "add", 4, "fail", 4, 11)
JUDGED = {
    "a set that has all": ("g-set", [ADD1, ADD2, *finals([1, 2], [2, 1])], True, "all 2 values"),
    "a set that lost one": ("g-set", [ADD1, ADD2, *finals([1, 2], [2])], False, "n2 did not have 1, which n1 ack"),
    "never read": (
        "g-set",
        [ADD1, *finals([], [])],
        False,
        "n1 and n2 did not have 1, which n1 acknowledged at 0.01 s, and no",
    ),
    "several lost": ("g-set", [ADD1, ADD2, *finals([], [])], False, "2 values are lost in all"),
    "an unknown end, absent": ("g-set", [ADD1, MAYBE3, *finals([1], [1])], True, ""),
    "an unknown end, on all": ("g-set", [ADD1, MAYBE3, *finals([1, 3], [3, 1])], True, ""),
    "an unknown end, on one": ("g-set", [ADD1, MAYBE3, *finals([1, 3], [1])], False, "3, which a read had shown"),
    "one that was refused": ("g-set", [ADD1, REFUSED4, *finals([1, 4], [1, 4])], False, "error 11 (temporarily"),
    "one from nowhere": ("g-set", [ADD1, *finals([1, 9], [1])], False, "9 at 0.03 s, which no client ever added"),
    "a value twice": ("g-set", [ADD1, *finals([1, 1], [1])], False, "the value 1 2 times"),
    "no answer at the end": ("g-set", [ADD1, *finals([1])], False, "n2 did not answer a read"),
    "nothing acknowledged": ("g-set", [REFUSED4, *finals([], [])], "unknown", "no value was acknowledged"),
    "values that are no numbers": (
        "broadcast",
        [("n1", "broadcast", {"a": [1]}, "ok"), *finals([{"a": [1]}], [])],
        False,
        'n2 did not have {"a": [1]}',
    ),
    "a counter that is right": ("pn-counter", [ADD1, ("n2", "add", -3, "ok"), *finals(-2, -2)], True, "read -2"),
    "a counter that is short": (
        "g-counter",
        [ADD1, ADD2, *finals(3, 1)],
        False,
        "the acknowledged deltas sum to 3 (2 too little)",
    ),
    "a counter too great": ("g-counter", [ADD1, ADD2, *finals(3, 4)], False, "between 0 and 3. Count no delta"),
    "an unknown end, counted": ("g-counter", [ADD1, MAYBE3, *finals(4, 4)], True, "read 4"),
    "an unknown end, not counted": ("g-counter", [ADD1, MAYBE3, *finals(1, 1)], True, "read 1"),
    "an unknown end, half": ("g-counter", [ADD1, MAYBE3, *finals(2, 2)], False, "unanswered adds between 1 and 4"),
    "nodes that disagree": ("g-counter", [ADD1, MAYBE3, *finals(1, 4)], False, "disagreed: n1 read 1, n2 read 4"),
    "a refused add, counted": ("g-counter", [ADD1, REFUSED4, *finals(1, 5)], False, "between 0 and 1"),
    "a counter that is silent": ("g-counter", [ADD1, *finals(1)], False, "n2 did not answer"),
    "no add": ("g-counter", [*finals(0, 0)], "unknown", "no add was acknowledged"),
    "an echo": ("echo", [("n1", "echo", "a", "ok", "a")], True, "all 1 answers"),
    "another echo": ("echo", [("n1", "echo", "a", "ok", "b")], False, "answered echo 'a' with 'b'"),
    "an echo of another kind": ("echo", [("n1", "echo", "1", "ok", 1)], False, "with 1"),
    "no echo": ("echo", [("n1", "echo", "a", "fail", "a", 0)], "unknown", "not one request"),
    "ids": ("unique-ids", [("n1", "generate", None, "ok", 1), ("n2", "generate", None, "ok", "1")], True, "all 2 ids"),
    "an id twice": (
        "unique-ids",
        [("n1", "generate", None, "ok", {"a": 1}), ("n2", "generate", None, "ok", {"a": 1})],
        False,
        'the id {"a": 1} was given 2 times: first by n1 at 0.01 s and by n2 at 0.03 s',
    ),
    "no id": ("unique-ids", [("n1", "generate", None, "info")], "unknown", "not one id"),
    "a store that is silent": ("lin-kv", [("n1", "read", None, "fail", None, 0)], "unknown", "not one request"),
}


@pytest.mark.parametrize(("workload", "told", "valid", "words"), JUDGED.values(), ids=JUDGED)
def test_what_happened_is_judged(workload: str, told: list[Any], valid: Any, words: str) -> None:
    judgement = WORKLOADS[workload].judge(events(*told), NODES)
    assert judgement.valid is valid, judgement.reason
    assert words in judgement.reason


def test_a_value_that_is_read_late_is_stale_and_right() -> None:
    late = [ADD1, ("n2", "read", None, "ok", []), ("n2", "read", None, "ok", []), *finals([1], [1])]
    judgement = WORKLOADS["g-set"].judge(events(*late), NODES)
    assert judgement.valid is True
    assert judgement.figures["stale"] == 1
    assert judgement.figures["stale_values"] == [1]
    assert judgement.figures["stable_latency_ms"]["max"] == pytest.approx(30)  # acknowledged at 10 ms, missed at 40 ms


def test_a_value_that_a_read_shows_before_it_was_asked_for_is_from_nowhere() -> None:
    judgement = WORKLOADS["g-set"].judge(events(("n2", "read", None, "ok", [1]), ADD1, *finals([1], [1])), NODES)
    assert judgement.valid is False
    assert "before" in judgement.reason


@given(st.integers(-5, 5), st.lists(st.integers(-4, 4), max_size=6))
def test_possible_sums_are_those_of_all_subsets(certain: int, perhaps: list[int]) -> None:
    chosen = itertools.chain.from_iterable(itertools.combinations(perhaps, k) for k in range(len(perhaps) + 1))
    assert sums(certain, perhaps) == {certain + sum(some) for some in chosen}


def test_figures_leave_final_reads_out_and_count_what_was_answered() -> None:
    told = [ADD1, MAYBE3, REFUSED4, ("n1", "cas", [1, 2], "fail", [1, 2], 22), *finals([1], [1])]
    found = figures(calls(events(*told)))
    assert found["operations"] == 4
    assert found["by_function"] == {"add": {"ok": 1, "fail": 1, "info": 1}, "cas": {"ok": 0, "fail": 1, "info": 0}}
    assert found["availability"] == 0.5
    assert found["latency_ms"] == {"median": pytest.approx(10), "p95": pytest.approx(10), "max": pytest.approx(10)}


@given(st.lists(st.floats(0, 100), min_size=1), st.sampled_from([0.5, 0.95]))
def test_a_quantile_is_the_least_value_that_so_many_do_not_exceed(values: list[float], part: float) -> None:
    values.sort()
    found = quantile(values, part)
    enough = [each for each in values if sum(other <= each for other in values) >= part * len(values)]
    assert found == enough[0]


def test_a_request_without_an_end_is_unknown() -> None:
    (call,) = calls(events(ADD1)[:1])
    assert call.type == "info"
    assert call.end is None


@pytest.mark.parametrize(
    ("workload", "op", "body"),
    [
        ("broadcast", Op("read"), {"type": "read_ok"}),
        ("broadcast", Op("read"), {"type": "read_ok", "messages": {"a": 1}}),
        ("g-set", Op("read"), {"type": "read_ok", "messages": []}),
        ("g-counter", Op("read"), {"type": "read_ok", "value": "7"}),
        ("g-counter", Op("read"), {"type": "read_ok", "value": 7.0}),
        ("g-counter", Op("read"), {"type": "read_ok", "value": True}),
        ("lin-kv", Op("read", key=1), {"type": "read_ok"}),
        ("unique-ids", Op("generate"), {"type": "generate_ok"}),
    ],
)
def test_an_answer_that_lacks_something_is_malformed(workload: str, op: Op, body: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match="answered with"):
        WORKLOADS[workload].answer(op, body)


@pytest.mark.parametrize("name", WORKLOADS)
def test_requests_are_drawn_from_the_seed(name: str) -> None:
    workload = WORKLOADS[name]
    first, again = (list(itertools.islice(workload.operations(random.Random(5)), 300)) for _ in range(2))
    assert first == again
    assert all(workload.request(op)["type"] == op.f for op in first)
    if workload.final is not None:
        assert workload.request(workload.final)["type"] == ("drain" if name == "kafka" else "read")


def test_no_value_of_lin_kv_is_written_twice() -> None:
    written = set()
    for op in itertools.islice(lin_kv.LIN_KV.operations(random.Random(1)), 1000):
        if op.f != "read":
            value = op.value if op.f == "write" else op.value[1]
            assert value not in written
            written.add(value)


@pytest.mark.parametrize(("count", "name"), list(itertools.product([1, 2, 5, 9], TOPOLOGIES)))
def test_a_topology_is_mutual_and_reaches_all(count: int, name: str) -> None:
    nodes = [f"n{k}" for k in range(1, count + 1)]
    found = TOPOLOGIES[name](nodes)
    assert list(found) == nodes
    assert all(one in found[other] and one != other for one in nodes for other in found[one])
    reached = {"n1"}
    for _ in nodes:
        reached |= {other for one in reached for other in found[one]}
    assert reached == set(nodes)
    if name == "grid":
        assert all(len(others) <= 4 for others in found.values())


def test_the_checker_is_asked_for_key_value_histories() -> None:
    right = [("n1", "write", 1, "ok"), ("n2", "read", None, "ok", 1)]
    wrong = [("n1", "write", 1, "ok"), ("n1", "write", 2, "ok"), ("n2", "read", None, "ok", 1)]
    told = [[{**event, "key": 7} for event in events(*each)] for each in (right, wrong)]
    assert [WORKLOADS["lin-kv"].judge(each, NODES).valid for each in told] == [True, False]
