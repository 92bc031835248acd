"""What chapter 12 runs: commits, elections and Paxos do what it says of them, and fail where it says so."""

from __future__ import annotations

from typing import Any

import pytest

from courselib import commit, election, paxos
from courselib.cluster import cluster, crash, explore, partition
from grader.nodes.network import Network
from grader.nodes.plan import Mishap
from grader.nodes.states import View

EVEN = Network(0.02, 0.02)
BEGIN = {"client": [("coord", {"type": "begin"})]}


def disagree(view: View) -> Any:
    return commit.outcomes({name: dict(pairs).get("state") for name, pairs in view.seen.items()})


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("phases", "each"), [(2, 4), (3, 6)])
def test_messages_of_a_commit(size: int, phases: int, each: int) -> None:
    run = cluster(commit.KINDS, commit.banks(" ".join("ABCD"[:size]), phases), BEGIN, until=3)
    assert (run.answer("client") or {})["type"] == "committed"
    assert run.messages == each * size


@pytest.mark.parametrize(
    ("settings", "faults", "ends"),
    [
        ({}, [], "committed"),
        ({"can": False}, [], "aborted"),
        ({}, [crash(0.01, 9, "B")], "aborted"),  # no vote in time
        ({}, [crash(0.05, 9, "coord")], "yes"),  # blocked
        ({"phases": 3}, [crash(0.05, 9, "coord")], "aborted"),
        ({"phases": 3}, [crash(0.07, 9, "coord")], "committed"),
    ],
)
def test_how_a_commit_ends(settings: dict[str, Any], faults: list[Mishap], ends: str) -> None:
    run = cluster(commit.KINDS, commit.banks("A B", **settings), BEGIN, faults, 3.0, network=EVEN, watched=["state"])
    assert commit.ended(run)["A"] == ends


def test_a_partition_breaks_three_phases() -> None:
    faults = [partition(0.065, 2, "coord A B", "C D"), crash(0.07, 9, "coord")]
    run = cluster(commit.KINDS, commit.banks("A B C D", 3), BEGIN, faults, 2.0, network=EVEN, watched=["state"])
    assert commit.ended(run) == {"A": "committed", "B": "committed", "C": "aborted", "D": "aborted"}


@pytest.mark.parametrize(
    ("settings", "timers", "wrong", "exhausted"),
    [({}, 2, None, True), ({"impatient": True}, 2, "A committed, B aborted", False),
     ({"phases": 3}, 4, "A committed, B aborted", False)],
)  # fmt: skip
def test_every_schedule_of_a_commit(settings: dict[str, Any], timers: int, wrong: str | None, exhausted: bool) -> None:
    found = explore(commit.KINDS, commit.banks("A B", **settings), BEGIN, disagree, timers=timers, watched=["state"])
    assert (found.problem, found.exhausted) == (wrong, exhausted)


def append(value: Any) -> dict[str, Any]:
    return {"type": "append", "value": value}


def test_a_leader_of_each_term_and_a_healed_partition() -> None:
    asks = {"c1": [("n1", append("a"), 0.7), ("n1", append("b"), 0.5)], "c2": [("n2", append("c"), 2.0)],
            "c3": [("n1", {"type": "read"}, 2.2), ("n2", {"type": "read"}, 0.6)]}  # fmt: skip
    run = cluster(election.Elector, 3, asks, [partition(1, 2.4, "n1", "n2 n3")], 3.2, watched=["role", "term"])
    assert [node for _, node in election.leaders(run)] == ["n1", "n2"]
    assert run.answer("c1", 1) is None
    assert [(run.answer("c3", number) or {})["value"] for number in (0, 1)] == [["a", "b"], ["a", "c"]]


def test_a_vote_that_is_forgotten_elects_two() -> None:
    def two(view: View) -> Any:
        led = [pairs["term"] for pairs in map(dict, view.seen.values()) if pairs.get("role") == "leader"]
        return len(led) > len(set(led)) or None

    found = explore(election.Elector, 3, {}, two, timers=2, crashes=1, watched=["role", "term"])
    assert found.problem
    without = explore(election.Elector, 3, {}, two, timers=2, most=5_000, watched=["role", "term"])
    assert not without.problem


def test_equal_timeouts_elect_nobody() -> None:
    runs = [cluster(election.Elector, 5, until=3.0, watched=["role"], spread=spread) for spread in (0.0, 0.3)]
    assert [bool(election.leaders(run)) for run in runs] == [False, True]


PROPOSED: dict[str, list[tuple[Any, ...]]] = {
    "c1": [("p1", {"type": "propose", "value": "a"})],
    "c2": [("p2", {"type": "propose", "value": "b"}, 0.1)],
}


def test_proposers_duel_for_ever_and_with_a_random_wait_they_do_not() -> None:
    runs = [
        cluster(paxos.KINDS, paxos.parliament(think=0.1, backoff=backoff), PROPOSED, until=5.0, network=EVEN)
        for backoff in (0.0, 0.1)
    ]
    assert runs[0].answer("c1") is None
    assert runs[0].answer("c2") is None
    assert runs[0].messages > 500
    assert (runs[1].answer("c1") or {})["value"] == (runs[1].answer("c2") or {})["value"]


def chosen(view: View) -> list[str]:
    return sorted({answer["value"] for _, _, answer in view.history if answer})


@pytest.mark.parametrize(("values", "happens"), [(["a"], True), (["b"], True), (["a", "b"], False)])
def test_paxos_may_choose_either_and_never_both(values: list[str], happens: bool) -> None:
    members = paxos.parliament(attempts=1)
    found = explore(paxos.KINDS, members, PROPOSED, lambda view: chosen(view) == values or None, most=5_000)
    assert bool(found.problem) == happens
