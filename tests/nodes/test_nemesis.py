"""Faults are decided from the seed alone, and cut what their names say."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from grader.nodes.processes import nemesis
from grader.nodes.processes.nemesis import KINDS, LEAST_NODES, PARTITIONS, plan
from grader.nodes.processes.network import CLIENTS, NODES, SERVICES, Network, Weather

IDS = tuple(f"n{k}" for k in range(1, 8))
NODE_COUNT = st.integers(1, 7)


def sees(nodes: tuple[str, ...], links: Collection[tuple[str, str]]) -> dict[str, set[str]]:
    """Whom each node hears, itself among them."""
    return {to: {by for by in nodes if (by, to) not in links} for to in nodes}


@given(NODE_COUNT, st.lists(st.sampled_from(KINDS), unique=True), st.integers(0, 10**6), st.floats(0.1, 5))
def test_a_plan_keeps_to_its_time_and_is_the_same_for_the_same_seed(
    count: int, kinds: list[str], seed: int, interval: float
) -> None:
    nodes = IDS[:count]
    faults = plan(kinds, nodes, 10.0, interval, seed)
    assert faults == plan(kinds, nodes, 10.0, interval, seed)
    ends = [0.0]
    for fault in faults:
        assert ends[-1] < fault.since < fault.until < 10.0
        ends.append(fault.until)
        assert fault.nodes
        assert set(fault.nodes) <= set(nodes)
        assert bool(fault.pairs) == (fault.what in ("partition", "one-way"))
        if not fault.pairs and "kill-all" not in kinds and count > 1:
            assert len(fault.nodes) <= max(1, (count - 1) // 2), "no more than a minority"


@given(st.integers(2, 7), st.sampled_from(list(PARTITIONS)))
def test_a_partition_cuts_something_and_never_a_node_from_itself(count: int, kind: str) -> None:
    nodes = IDS[:count]
    links = PARTITIONS[kind](nodes)
    assert all(one != other for one, other in links)
    if count >= LEAST_NODES.get(kind, 2):
        assert links
    if kind != "one-way":
        assert {(other, one) for one, other in links} == links


def test_partitions_are_what_they_are_called() -> None:
    nodes = IDS[:5]
    heard = sees(nodes, nemesis.halves(nodes))
    assert heard["n1"] == {"n1", "n2", "n3"}
    assert heard["n5"] == {"n4", "n5"}
    heard = sees(nodes, nemesis.isolate(nodes))
    assert heard["n1"] == {"n1"}
    assert heard["n2"] == {"n2", "n3", "n4", "n5"}
    heard = sees(nodes, nemesis.bridge(nodes))
    assert heard["n1"] == set(nodes)
    assert heard["n2"] == {"n1", "n2", "n3"}
    assert heard["n5"] == {"n1", "n4", "n5"}
    heard = sees(nodes, nemesis.one_way(nodes))
    assert heard["n1"] == {"n1", "n2", "n3"}
    assert heard["n5"] == set(nodes)


@given(st.integers(4, 7), st.integers(0, 1000), st.sampled_from(["halves", "isolate", "bridge", "one-way"]))
def test_a_label_names_every_group(count: int, seed: int, kind: str) -> None:
    nodes = IDS[:count]
    fault = plan([kind], nodes, 10.0, 1.0, seed)[0]
    first, *words = fault.label.removeprefix("partition: ").split()
    assert first == kind
    assert set(words) - {"|", ">"} == (set(nodes) if kind != "isolate" else {words[0]})
    heard = sees(nodes, fault.pairs)
    groups = [set(group.split()) for group in " ".join(words).replace(">", "|").split("|")]
    if kind == "one-way":
        assert all(heard[node] == groups[0] for node in groups[0])
    elif kind != "bridge":
        assert all(heard[node] == groups[0] for node in groups[0]), fault.label


@given(st.integers(4, 7))
def test_in_a_ring_every_node_hears_a_majority_and_no_two_the_same(count: int) -> None:
    heard = sees(IDS[:count], nemesis.ring(IDS[:count]))
    assert all(2 * len(them) > count for them in heard.values())
    assert len({frozenset(them) for them in heard.values()}) == count


def fates(network: Network, src: str, dest: str, count: int) -> list[list[float]]:
    return [network.fates(src, dest, NODES) for _ in range(count)]


def test_a_link_has_its_fate_from_the_seed_whatever_others_do() -> None:
    weather = Weather(latency=0.01, drop=0.2, duplicate=0.2)
    alone, busy = Network(weather, 7), Network(weather, 7)
    for _ in range(10):
        busy.fates("n2", "n1", NODES)
    assert fates(alone, "n1", "n2", 50) == fates(busy, "n1", "n2", 50)
    assert fates(Network(weather, 8), "n1", "n2", 50) != fates(alone, "n1", "n2", 50)


def test_messages_are_lost_and_doubled_as_often_as_was_asked_for() -> None:
    network = Network(Weather(latency=0.01, drop=0.1, duplicate=0.2), 1)
    found = fates(network, "n1", "n2", 5000)
    assert 400 < sum(not each for each in found) < 600
    assert 800 < sum(len(each) == 2 for each in found) < 1000  # of those that were not lost
    times = [each[0] for each in found if each]
    assert 0.009 < sum(times) / len(times) < 0.011


def test_clients_are_near_and_services_answer_once() -> None:
    network = Network(Weather(latency=0.01, drop=0.5, duplicate=0.9), 1)
    assert all(network.fates("c1", "n1", CLIENTS) == [0.0] for _ in range(20))
    assert all(len(network.fates("n1", "lin-kv", SERVICES)) <= 1 for _ in range(50))


def test_a_link_that_two_faults_cut_is_whole_when_both_are_over() -> None:
    network = Network(Weather(), 1)
    network.cut(frozenset({("n1", "n2")}))
    network.cut(frozenset({("n1", "n2"), ("n2", "n1")}))
    network.mend(frozenset({("n1", "n2")}))
    assert not network.passes("n1", "n2")
    network.mend(frozenset({("n1", "n2"), ("n2", "n1")}))
    assert network.passes("n1", "n2")
    assert network.traffic.cut == 1


def test_a_healed_network_loses_nothing_and_keeps_its_delays() -> None:
    network = Network(Weather(latency=0.01, drop=0.9, duplicate=0.9), 1)
    network.cut(frozenset({("n1", "n2")}))
    network.heal()
    assert network.passes("n1", "n2")
    assert all(len(each) == 1 and each[0] > 0 for each in fates(network, "n1", "n2", 50))
