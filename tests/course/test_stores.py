"""The chapter on CAP's store: each setting keeps what it promises and loses what it gives up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from courselib.cluster import Run, cluster, partition
from courselib.judged import judged
from courselib.stores import Store, compared, inside, said, stale_reads
from grader.nodes.network import Network

BOTH = ("read", "write")
READ = {"type": "read", "key": "x"}
NODES = ("n1", "n2", "n3")


def write(value: int) -> dict[str, Any]:
    return {"type": "write", "key": "x", "value": value}


def run(cut: str = "n3", seed: int = 1, **settings: Any) -> Run:
    rest = " ".join(node for node in NODES if node != cut)
    asks = {"a": [("n1", write(1), 0.2), ("n1", write(2), 1.0)], "b": [("n3", READ, 2.0), ("n3", write(3), 0.1)]}
    return cluster(Store, 3, asks, [partition(1.0, 4.0, rest, cut)], 6.0, seed=seed, **settings)


@pytest.mark.parametrize(
    ("settings", "read", "written", "verdict"),
    [
        ({"only_home": BOTH}, "refused", "refused", "linearizable"),
        ({"only_home": BOTH, "patience": 99.0}, "no answer", None, "linearizable"),
        ({}, "1", "written", "not linearizable"),
        ({"only_home": ("write",)}, "1", "refused", "not linearizable"),
    ],
    ids=["CP", "CA", "AP", "followers"],
)
def test_what_a_cut_off_node_answers(settings: dict[str, Any], read: str, written: str | None, verdict: str) -> None:
    one = run(**settings)
    done = [said(asked.answer) for asked in one.played.clients["b"].done]
    assert done == [read, *([written] if written else [])]
    assert judged(one).verdict == verdict
    assert bool(judged(one).reason) == (verdict != "linearizable")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NODES), st.integers(0, 9), st.integers(0, 40)), min_size=4, max_size=20),
    st.sampled_from(NODES), st.integers(0, 2), st.integers(0, 1000),
)  # fmt: skip
def test_where_only_the_home_answers_every_history_is_linearizable(
    drawn: list[tuple[str, int, int]], cut: str, acks: int, seed: int
) -> None:
    bodies = [(node, write(value) if value > 4 else READ, after / 100) for node, value, after in drawn]
    rest = " ".join(node for node in NODES if node != cut)
    asks = {"a": bodies[::2], "b": bodies[1::2]}
    one = cluster(Store, 3, asks, [partition(0.3, 1.5, rest, cut)], 20.0, seed=seed, only_home=BOTH, acks=acks)
    assert judged(one).verdict == "linearizable"


@pytest.mark.parametrize(("acks", "round_trips"), [(0, 0), (1, 1), (2, 1)])
def test_a_write_takes_a_round_trip_if_it_waits_for_copies(acks: int, round_trips: int) -> None:
    one = cluster(Store, 3, {"a": [("n1", write(1))]}, network=Network(0.02, 0.02), only_home=BOTH, acks=acks)
    assert inside(one, "write") == [pytest.approx(0.04 * round_trips)]


def test_a_home_that_is_cut_off_confirms_only_what_others_have() -> None:
    for acks, answer in ((0, "written"), (1, "refused")):
        assert said(run(cut="n1", acks=acks, only_home=("write",)).answer("a", 1)) == answer


def test_reads_that_miss_a_completed_write_are_stale() -> None:
    assert stale_reads(run()) == 1
    assert stale_reads(run(only_home=BOTH)) == 0


def test_an_error_that_denies_what_happened_is_found() -> None:
    asks = {"b": [("n3", write(3), 0.5)], "a": [("n1", READ, 2.0)]}
    for code, verdict in ((0, "linearizable"), (11, "not linearizable")):
        one = cluster(Store, 3, asks, only_home=BOTH, patience=0.0, code=code)
        assert judged(one).verdict == verdict


def test_runs_side_by_side() -> None:
    lines = compared({"CP": run(only_home=BOTH), "CA": run(only_home=BOTH, patience=99.0)}).text.splitlines()
    assert lines[0] == "| client | node | request | CP | CA |"
    assert lines[-2:] == ["| b | n3 | read x | refused | no answer |", "| b | n3 | write x = 3 | refused | not asked |"]


def test_a_verdict_is_drawn_with_the_partition() -> None:
    html = judged(run())._repr_html_()
    assert "partition n1 n2, n3" in html
    assert "Not linearizable" in html
