"""Right and wrong programs on every workload, among faults: the judge tells them apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from cluster_runs import play, program
from often import often

from grader.nodes.processes.network import Weather

ROUGH = Weather(latency=0.005, drop=0.1, duplicate=0.1)
MANY = {"rate": 200.0}
CUT = {"kinds": ("partition",), "interval": 0.3, "seconds": 1.0}


@dataclass(frozen=True)
class Try:
    """A workload and a program, and for a wrong one words that the sentence must have."""

    workload: str
    command: tuple[str, ...]
    words: str = ""
    nodes: int = 3
    more: dict[str, Any] = field(default_factory=dict)


RIGHT = {
    "echo": Try("echo", ("echo.py",)),
    "echo, handed on to another node": Try("echo", ("hand_on.py",), more={"weather": Weather(latency=0.001)}),
    "unique ids, killed and started again": Try(
        "unique-ids", ("unique_ids.py", "right"), more={"kinds": ("kill",), "interval": 0.3, "seconds": 1.0}
    ),
    "broadcast, cut off, lost, late and doubled": Try(
        "broadcast", ("gossip.py",), nodes=5, more={"weather": ROUGH, **CUT}
    ),
    "g-set, paused": Try("g-set", ("gossip.py",), more={"kinds": ("pause",), "interval": 0.3, "seconds": 1.0}),
    "pn-counter, cut off": Try("pn-counter", ("gossip.py", "counter"), more=CUT),
    "g-counter, lost and doubled": Try("g-counter", ("gossip.py", "counter"), more={"weather": ROUGH}),
    "g-counter over seq-kv": Try("g-counter", ("counter_over_kv.py", "seq-kv")),
    "g-counter by cas on lin-kv": Try("g-counter", ("cas_counter.py", "lin-kv")),
    "list-append on a leader": Try("txn-list-append", ("txn_store.py", "append", "leader")),
    "rw-register on a leader": Try("txn-rw-register", ("txn_store.py", "w", "leader")),
    "logs on a leader": Try("kafka", ("logs.py", "leader")),
    "logs on a leader, killed and started again": Try(
        "kafka", ("logs.py", "leader", "disk"), more={"kinds": ("kill",), "interval": 0.3, "seconds": 1.0}
    ),
    "g-counter on one node": Try("g-counter", ("gossip.py", "counter"), nodes=1),
}
WRONG = {
    "ids of one node only": Try("unique-ids", ("unique_ids.py", "wrong"), "was given"),
    "a broadcast that stays where it is": Try("broadcast", ("gossip_wrong.py", "alone"), "did not have"),
    "a broadcast that is told once": Try("broadcast", ("gossip_wrong.py", "once"), "did not have", more=CUT),
    "a broadcast that is told twice": Try("broadcast", ("gossip_wrong.py", "list"), "in one read"),
    "lists on every node for itself": Try(
        "txn-list-append", ("txn_store.py", "append", "alone"), "not strict-ser", more=MANY
    ),
    "registers on every node for itself": Try(
        "txn-rw-register", ("txn_store.py", "w", "alone"), "not strict-ser", more=MANY
    ),
    "logs on every node for itself": Try("kafka", ("logs.py", "alone"), "offset"),
    "logs that lose what they acknowledged": Try("kafka", ("logs.py", "loses"), "offset 0"),
    "logs that skip": Try("kafka", ("logs.py", "skips"), "but not"),
    "a counter that counts twice": Try("pn-counter", ("gossip_wrong.py", "twice"), "read"),
    "a counter that loses what it counted": Try("g-counter", ("cas_counter.py", "lww-kv"), "too little"),
}


def ran(each: Try, **more: float) -> Any:
    return play(each.workload, program(*each.command), nodes=each.nodes, **{**each.more, **more})


@pytest.mark.parametrize(
    "each",
    often(
        RIGHT,
        "echo",
        "unique ids, killed and started again",
        "broadcast, cut off, lost, late and doubled",
        "list-append on a leader",
        "logs on a leader",
    ),
)
def test_right_programs_are_right(each: Try) -> None:
    outcome = ran(each)
    assert outcome.right, outcome.judgement.reason
    assert bool(outcome.faults) == ("kinds" in each.more)
    assert outcome.to_json()["availability"] > 0


@pytest.mark.parametrize(
    "each",
    often(
        WRONG,
        "ids of one node only",
        "a counter that counts twice",
        "lists on every node for itself",
        "logs that skip",
    ),
)
def test_wrong_programs_are_wrong(each: Try) -> None:
    outcome = ran(each, settle_seconds=0.5)
    assert outcome.judgement.valid is False
    assert outcome.trouble is None
    assert each.words in outcome.judgement.reason
    assert outcome.convergence is None


@pytest.mark.parametrize(
    ("service", "right"),
    [
        pytest.param("lin-kv", True, marks=pytest.mark.heavy),
        ("seq-kv", False),
        pytest.param("lww-kv", False, marks=pytest.mark.heavy),
    ],
)
def test_a_proxy_is_linearizable_if_its_service_is(service: str, right: bool) -> None:
    outcome = play("lin-kv", program("kv_proxy.py", service), nodes=3, rate=150.0, seconds=1.0)
    assert outcome.judgement.valid is right, outcome.judgement.reason


@pytest.mark.heavy
def test_a_node_that_starts_again_is_told_the_topology_again() -> None:
    kills = {"kinds": ("kill-all",), "interval": 0.4, "seconds": 1.0, "settle_seconds": 0.0}
    outcome = play("broadcast", program("gossip_wrong.py", "alone"), **kills)
    assert outcome.trouble is None
    assert outcome.faults
    assert outcome.logs["n1"].count("neighbours: ['n2']") == 1 + len(outcome.faults)


def test_the_same_seed_makes_the_same_requests() -> None:
    asked = []
    for _ in range(2):
        outcome = play("lin-kv", program("kv_proxy.py", "lin-kv"), nodes=1, seconds=0.3)
        asked.append(
            [(event["f"], event["key"], event["value"]) for event in outcome.events if event["type"] == "invoke"]
        )
    shorter = min(map(len, asked))
    assert shorter > 3
    assert asked[0][:shorter] == asked[1][:shorter]


def test_a_request_that_is_handed_on_is_cut_off_with_its_node() -> None:
    outcome = play("echo", program("hand_on.py"), nodes=2, kinds=("isolate",), interval=0.3, seconds=1.0)
    ends = {event["node"]: set[str]() for event in outcome.events}
    for event in outcome.events:
        ends[event["node"]].add(event["type"])
    assert "fail" in ends["n2"]
    assert ends["n1"] == {"invoke", "ok"}
    assert outcome.messages()["between_nodes"] == sum(
        event["node"] == "n2" and event["type"] == "invoke" for event in outcome.events
    )


@pytest.mark.heavy
def test_events_are_a_history() -> None:
    outcome = play("lin-kv", program("kv_proxy.py", "lin-kv"), kinds=("kill",), interval=0.3, seconds=1.0)
    open_: set[int] = set()
    retired: set[int] = set()
    for event in outcome.events:
        process = event["process"]
        assert process not in retired
        assert (event["type"] == "invoke") == (process not in open_)
        open_ ^= {process}
        if event["type"] == "info":
            retired.add(process)
    assert not open_
    times = [event["time"] for event in outcome.events]
    assert times == sorted(times)


def test_figures_count_what_was_sent() -> None:
    outcome = play("broadcast", program("gossip_wrong.py", "list"), nodes=2, settle_seconds=0.0)
    told = sum(event["f"] == "broadcast" and event["type"] == "invoke" for event in outcome.events)
    messages = outcome.messages()
    assert messages["between_nodes"] == messages["by_type"]["told"] == 2 * told
    asked = sum(event["type"] == "invoke" and "final" not in event for event in outcome.events)
    assert messages["with_clients"] == 2 * asked
    assert messages["per_operation"] == 2 * told / asked
