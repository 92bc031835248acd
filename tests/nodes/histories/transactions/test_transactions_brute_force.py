"""What is found in small histories is what the definitions give, and levels are what orders of transactions are."""

from __future__ import annotations

import random

import brute_transactions as brute
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.nodes.histories.transactions import Anomaly, Graph, Transaction, check, cycles, find, graph
from grader.nodes.histories.transactions.parts import Kind, Why

SEEDS = st.integers(0, 2**32)
CYCLES = ("G0", "G1c", "G-single", "G-nonadjacent", "G2-item")


@given(SEEDS)
def test_the_edges_of_lists_are_those_of_the_definitions(seed: int) -> None:
    history = brute.history(random.Random(seed), 6)
    assert {(edge.source, edge.target, edge.kind) for edge in graph(history).edges()} == brute.edges(history)


@given(SEEDS)
def test_the_kinds_of_cycles_are_those_of_the_definitions(seed: int) -> None:
    history = brute.history(random.Random(seed), 6)
    found = {one.kind: one for one in find(history)}
    every = list(brute.cycles(brute.edges(history)))
    for kind in ("G0", "G1c", "G-single"):
        sizes = [len(nodes) for nodes, kinds in every if kind in brute.kinds_of(kinds)]
        assert (kind in found) == bool(sizes)
        assert kind not in found or len(found[kind].indices) == min(sizes)
    for kind in ("G-nonadjacent", "G2-item"):
        sizes = [len(nodes) for nodes, kinds in _pure(every) if kind in brute.kinds_of(kinds)]
        assert (kind in found) == bool(sizes)
        assert kind not in found or len(found[kind].indices) == min(sizes)


@given(SEEDS)
def test_cycles_of_any_graph_are_those_of_the_definitions(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(2, 6)
    history = tuple(Transaction(index, index, "ok", (), index) for index in range(count))
    typed: brute.Typed = set()
    for _ in range(draw.randint(2, 2 * count)):
        a, b = draw.sample(range(count), 2)
        typed.add((a, b, draw.choice(("ww", "wr", "rw", "rw"))))
    coded: dict[Kind, dict[int, Why]] = {
        kind: {a * count + b: ("x", 1, 2) for a, b, each in sorted(typed) if each == kind}
        for kind in ("ww", "wr", "rw")
    }
    found = {one.kind: one for one in cycles.cycles(Graph(history, coded, ()))}
    every = list(brute.cycles(typed))
    pure = _pure(every)
    for kind in CYCLES:
        among = pure if kind in ("G-nonadjacent", "G2-item") else every
        sizes = [len(nodes) for nodes, kinds in among if kind in brute.kinds_of(kinds)]
        assert (kind in found) == bool(sizes)
        if sizes:
            assert len(found[kind].indices) == min(sizes)
            _is_a_cycle(found[kind], typed)


def _pure(every: list[tuple[tuple[int, ...], tuple[str, ...]]]) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
    """The cycles in components without one of fewer than two rw."""
    rooms: list[set[int]] = []
    for nodes, _ in every:
        room = set(nodes).union(*[each for each in rooms if each & set(nodes)])
        rooms = [each for each in rooms if not each & room] + [room]
    spoilt = [set(nodes) for nodes, kinds in every if kinds.count("rw") < 2]
    return [
        cycle for cycle in every for room in rooms if set(cycle[0]) <= room and not any(one <= room for one in spoilt)
    ]


@given(SEEDS)
def test_every_witness_is_one(seed: int) -> None:
    history = brute.history(random.Random(seed), 6, last=False)
    typed = brute.edges(history) | brute.orders(history, True, True)
    for one in find(history, real_time=True, sessions=True):
        if one.edges:
            _is_a_cycle(one, typed)


def _is_a_cycle(one: Anomaly, typed: brute.Typed) -> None:
    assert len(set(one.indices)) == len(one.indices) == len(one.edges) >= 2
    assert [edge.source for edge in one.edges] == list(one.indices)
    assert [edge.target for edge in one.edges] == [*one.indices[1:], one.indices[0]]
    assert {(edge.source, edge.target, edge.kind) for edge in one.edges} <= typed
    kinds = [edge.kind for edge in one.edges]
    suffix = brute.suffix_of(kinds)
    assert one.kind in {kind + suffix for kind in brute.kinds_of(kinds)}


@given(SEEDS)
def test_witnesses_along_time_are_the_smallest(seed: int) -> None:
    history = brute.history(random.Random(seed), 6, last=False)
    found = {one.kind: one for one in find(history, real_time=True)}
    every = list(brute.cycles(brute.edges(history) | brute.orders(history, False, True)))
    for kind, through in (("G0", "ww"), ("G1c", "wr"), ("G-single", "rw")):
        own = [(set(_edges_of(nodes, kinds, through)), len(nodes), brute.suffix_of(kinds)) for nodes, kinds in every
               if kind in brute.kinds_of(kinds)]  # fmt: skip
        old = {edge for edges, _, suffix in own if not suffix for edge in edges}
        sizes = [size for edges, size, suffix in own if suffix and edges - old]
        one = found.get(f"{kind}-realtime")
        assert (one is not None) == bool(sizes)
        assert one is None or len(one.indices) == min(sizes)


def _edges_of(nodes: tuple[int, ...], kinds: tuple[str, ...], kind: str) -> list[tuple[int, int]]:
    pairs = zip(nodes, [*nodes[1:], nodes[0]], kinds, strict=True)
    return [(a, b) for a, b, own in pairs if own == kind]


@given(SEEDS)
def test_whatever_cycle_there_is_one_as_bad_is_reported(seed: int) -> None:
    history = brute.history(random.Random(seed), 5, last=False)
    found = {one.kind for one in find(history, real_time=True, sessions=True)}
    suffixes = ["", "-process", "-realtime"]
    for _, kinds in brute.cycles(brute.edges(history) | brute.orders(history, True, True)):
        if kinds.count("rw") + sum(kind in ("ww", "wr") for kind in kinds):
            weaker = suffixes[: suffixes.index(brute.suffix_of(kinds)) + 1]
            worst = min(CYCLES.index(kind) for kind in brute.kinds_of(kinds))
            assert found & {kind + suffix for kind in CYCLES[: worst + 1] for suffix in weaker}, kinds


LEVELS = {
    "serializable": (False, False),
    "strong-session-serializable": (False, True),
    "strict-serializable": (True, False),
}


@pytest.mark.parametrize("level", LEVELS)
@given(SEEDS)
def test_serializable_is_that_an_order_explains_all(level: str, seed: int) -> None:
    draw = random.Random(seed)
    history = brute.history(draw, 5, last=draw.random() < 0.5)
    real_time, sessions = LEVELS[level]
    assert check(history, level).valid == brute.serial(history, real_time, sessions)


@given(SEEDS)
def test_registers_that_an_order_explains_have_no_anomaly(seed: int) -> None:
    history = brute.registers(random.Random(seed), 5)
    for level, (real_time, sessions) in LEVELS.items():
        if brute.serial(history, real_time, sessions, registers=True):
            assert check(history, level, "rw-register", linearizable_keys=real_time).anomalies == ()


def test_an_index_is_a_name() -> None:
    same = [Transaction(1, 0, "ok", ()), Transaction(1, 1, "ok", ())]
    with pytest.raises(ValueError, match="the same index"):
        find(same)
