"""Histories of stores have no anomaly that their level forbids, and show those that it allows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest
import rustworkx
from hypothesis import given
from hypothesis import strategies as st

from grader.nodes.histories.transactions import Transaction, check, find, graph, order, search, stores
from grader.nodes.histories.transactions.search import Part

PROMISES = {
    "uncommitted": ("read-uncommitted", "read-committed"),
    "committed": ("read-committed", "snapshot-isolation"),
    "snapshot": ("strong-snapshot-isolation", "repeatable-read"),
    "lagging": ("serializable", "strong-session-snapshot-isolation"),
    "serializable": ("strict-serializable", None),
}
SHOWS = {
    "uncommitted": {"G1a", "G1b", "G1c", "G-single"},
    "committed": {"lost-update", "G-single", "G2-item"},
    "snapshot": {"G2-item"},
    "lagging": {"G-single-process", "G-single-realtime"},
    "serializable": set(),
}
SEEDS = range(4)


@pytest.mark.parametrize("level", PROMISES)
def test_a_store_keeps_its_promise_and_no_more(level: str) -> None:
    promise, more = PROMISES[level]
    shown: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for seed in SEEDS:
        history = stores.simulate(level, seed, 500, keys=2 + seed, clients=4 + 3 * seed)
        assert check(history, promise).anomalies == ()
        assert more is None or not check(history, more).valid
        shown.update(one.kind for one in find(history, real_time=True, sessions=True))
        ended.update(one.status for one in history)
    assert shown.keys() >= SHOWS[level]
    assert ended.keys() == {"ok", "fail", "info"}


@pytest.mark.parametrize("level", PROMISES)
def test_registers_give_no_false_alarm(level: str) -> None:
    for seed in SEEDS:
        history = stores.simulate(level, seed, 500, keys=3 + seed, clients=8, workload="rw-register")
        assert check(history, PROMISES[level][0], "rw-register").anomalies == ()
        if level == "serializable":
            assert check(history, "strict-serializable", "rw-register", linearizable_keys=True).anomalies == ()


def test_a_store_does_the_same_again() -> None:
    assert stores.simulate("lagging", 5, 100) == stores.simulate("lagging", 5, 100)
    assert stores.simulate("lagging", 5, 100) != stores.simulate("lagging", 6, 100)
    with pytest.raises(ValueError, match="no store is repeatable-read"):
        stores.simulate("repeatable-read", 1)


@given(st.integers(0, 2**32))
def test_the_edges_of_time_give_its_whole_order_and_are_few(seed: int) -> None:
    draw = random.Random(seed)
    history, places = [], list(range(40))
    draw.shuffle(places)
    for index in range(20):
        called, returned = sorted((places.pop(), places.pop()))
        status = draw.choice(["ok"] * 5 + ["info", "fail"])
        history.append(Transaction(index, index, status, (), called, returned))  # type: ignore[arg-type]
    pairs = list(order.real_time(history))
    way = _digraph(20, pairs)
    whole = {(a.index, b.index) for a in history for b in history
             if a.status == "ok" and b.status != "fail" and a.returned < b.called}  # fmt: skip
    assert {(a, b) for a in range(20) for b in rustworkx.descendants(way, a)} == whole
    assert len(pairs) == rustworkx.transitive_reduction(way)[0].num_edges()


def _digraph(count: int, pairs: Iterable[tuple[int, int]]) -> rustworkx.PyDiGraph[int | None, None]:
    made: rustworkx.PyDiGraph[int | None, None] = rustworkx.PyDiGraph()
    made.add_nodes_from(list(range(count)))
    made.extend_from_edge_list(list(pairs))
    return made


def test_the_edges_of_time_grow_as_the_history_does() -> None:
    for transactions in (500, 2000):
        history = stores.simulate("serializable", 1, transactions, clients=10)
        assert sum(1 for _ in order.real_time(history)) <= 10 * len(history)


@given(st.integers(0, 2**32))
def test_edges_that_ways_close_are_found_however_many_are_asked(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(2, 30)
    ways = {(draw.randrange(count), draw.randrange(count)) for _ in range(draw.randint(0, 2 * count))}
    back = {(draw.randrange(count), draw.randrange(count)) for _ in range(draw.randint(1, 3 * count))}
    ways, back = {pair for pair in ways if pair[0] != pair[1]}, {pair for pair in back if pair[0] != pair[1]}
    out: dict[str, dict[int, list[int]]] = {"ww": {}, "rw": {}}
    for kind, pairs in (("ww", ways), ("rw", back)):
        for a, b in sorted(pairs):
            out[kind].setdefault(a, []).append(b)
    part = Part(list(range(count)), out)  # type: ignore[arg-type]
    reach = _digraph(count, ways)
    expected = {(a, b) for a, b in back if a in rustworkx.descendants(reach, b)}
    for abreast in (1, 3, 1024):
        assert set(search.closed(part, ("ww",), part.rooms(("ww", "rw")), abreast)) == expected


def test_a_graph_says_no_more_than_was_asked() -> None:
    history = stores.simulate("lagging", 2, 100)
    assert {edge.kind for edge in graph(history).edges()} == {"ww", "wr", "rw"}
    asked = graph(history, sessions=True, real_time=True)
    assert {edge.kind for edge in asked.edges()} == {"ww", "wr", "rw", "session", "real-time"}
    assert {edge.kind for edge in asked.edges("session")} == {"session"}
