"""Planted anomalies are named exactly, alone and in a large history that has none, and each level forbids its own."""

from __future__ import annotations

import planted
import pytest

from grader.nodes.histories.transactions import LEVELS, Op, Transaction, check, find, graph, stores
from grader.submission import BadRequest


@pytest.mark.parametrize("name", planted.LISTS)
def test_an_anomaly_of_lists_is_named_exactly(name: str) -> None:
    one = planted.LISTS[name]
    assert sorted(each.kind for each in find(one.transactions(), real_time=True, sessions=True)) == sorted(one.kinds)


@pytest.mark.parametrize("name", planted.REGISTERS)
def test_an_anomaly_of_registers_is_named_exactly(name: str) -> None:
    one = planted.REGISTERS[name]
    found = find(one.transactions(), "rw-register", real_time=True, sessions=True)
    assert sorted(each.kind for each in found) == sorted(one.kinds)


@pytest.mark.parametrize("name", planted.LISTS)
def test_it_is_found_in_a_large_history(name: str) -> None:
    one, large = planted.LISTS[name], stores.simulate("serializable", 7, 1000)
    inside = one.transactions(5000, since=400)
    alone, found = (
        find(one.transactions(5000), "list-append", True, True),
        find([*large, *inside], "list-append", True, True),
    )
    assert [(each.kind, len(each.indices)) for each in found] == [(each.kind, len(each.indices)) for each in alone]
    for each in found:
        assert set(each.indices) <= {own.index for own in inside}


ALLOWS = {
    "read-uncommitted": ("aborted read", "intermediate read", "circular flow", "read skew", "lost update", "write skew",
                         "two orders", "stale read"),
    "read-committed": ("read skew", "lost update", "write skew", "long fork", "stale read", "written into the past"),
    "snapshot-isolation": ("write skew", "write skew of three", "stale read", "own write of before not seen"),
    "repeatable-read": ("stale read", "own write of before not seen", "skew in time"),
    "serializable": ("stale read", "own write of before not seen", "written into the past", "read from the future"),
    "strong-session-snapshot-isolation": ("write skew", "stale read"),
    "strong-session-serializable": ("stale read", "skew in time", "fork in time"),
    "strong-snapshot-isolation": ("write skew", "skew in time"),
    "strict-serializable": ("unknown that did not happen",),
}  # fmt: skip
FORBIDS = {
    "read-uncommitted": ("dirty write", "own append not seen", "twice in a list", "from nowhere"),
    "read-committed": ("aborted read", "intermediate read", "circular flow", "two orders"),
    "snapshot-isolation": ("read skew", "lost update", "lost append", "long fork", "read twice"),
    "repeatable-read": ("write skew", "lost update", "read twice"),
    "serializable": ("write skew", "write skew of three", "long fork"),
    "strong-session-snapshot-isolation": ("own write of before not seen", "written into the own past"),
    "strong-session-serializable": ("own write of before not seen", "write skew"),
    "strong-snapshot-isolation": ("stale read", "fork in time", "read from the future"),
    "strict-serializable": ("stale read", "skew in time", "fork in time", "own write of before not seen", "write skew"),
}


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_forbids_its_anomalies_and_no_others(level: str) -> None:
    for name in ALLOWS[level]:
        assert check(planted.LISTS[name].transactions(), level).valid, name
    for name in FORBIDS[level]:
        assert not check(planted.LISTS[name].transactions(), level).valid, name


def test_a_lost_append_is_an_anomaly_even_where_nobody_reads_it() -> None:
    texts = ("x+1 y+1", "x+2 y[1]", "x[2]")  # x+1 would have to come after everything, but its y is seen before
    history = planted.Planted((), texts).transactions()
    assert find(history) == []
    assert [each.kind for each in find(history, unread=True)] == ["G1c", "G-single"]
    assert not check(history).valid


def test_linearizable_keys_put_more_versions_in_order() -> None:
    history = planted.Planted((), ("x=1", "x=2", "x1"), ((1, 2), (3, 4), (5, 6))).transactions()
    assert check(history, "strict-serializable", "rw-register").valid
    found = check(history, "strict-serializable", "rw-register", linearizable_keys=True)
    assert [each.kind for each in found.anomalies] == ["cyclic-versions"]
    back = planted.Planted((), ("x=1", "x1", "xnil"), ((1, 2), (3, 4), (5, 6))).transactions()
    assert [each.kind for each in find(back, "rw-register", linearizable_keys=True)] == ["cyclic-versions"]


def test_a_value_twice_a_wrong_operation_and_an_unknown_level_are_refused() -> None:
    twice = [Transaction(3, 0, "ok", (Op("append", "x", 1),)), Transaction(4, 0, "fail", (Op("append", "x", 1),))]
    with pytest.raises(BadRequest, match="1 is appended to x twice, by transactions 3 and 4"):
        find(twice)
    with pytest.raises(BadRequest, match="1 is written to x twice"):
        find([Transaction(3, 0, "ok", (Op("w", "x", 1), Op("w", "x", 1)))], "rw-register")
    for workload, f in (("list-append", "w"), ("rw-register", "append")):
        with pytest.raises(BadRequest, match="does not have"):
            find([Transaction(3, 0, "ok", (Op(f, "x", 1),))], workload)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no isolation level is called 'good'"):
        check([], "good")
    with pytest.raises(ValueError, match="no workload is called 'queue'"):
        find([], "queue")


def test_nothing_has_no_anomaly() -> None:
    assert find([], real_time=True, sessions=True) == []
    assert check([Transaction(1, 0, "ok", ())], "strict-serializable").valid


def test_edges_say_why() -> None:
    edges = {
        (edge.kind, edge.source, edge.target): edge for edge in graph(planted.LISTS["read skew"].transactions()).edges()
    }
    assert set(edges) == {("wr", 1, 2), ("rw", 2, 1), ("wr", 1, 3)}
    assert (edges["rw", 2, 1].key, edges["rw", 2, 1].elements) == ("x", (None, 1))
    assert (edges["wr", 1, 2].key, edges["wr", 1, 2].elements) == ("y", (1,))
