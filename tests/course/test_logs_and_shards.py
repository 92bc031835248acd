"""What chapter 15 runs of logs and transfers: which acknowledged messages are lost, which transfers are half done."""

from __future__ import annotations

from typing import Any

import pytest

from courselib import brokers, isr, topics, transacted
from courselib.cluster import Run, cluster, crash, partition
from courselib.shards import LOOK, accounts, halves, transfer, transfers
from grader.nodes.network import Network

EVEN = Network(0.005, 0.005)


def log(acks: str, min_isr: int, faults: list[Any], until: float = 4.0, **settings: Any) -> Run:
    asks: dict[str, list[tuple[Any, ...]]] = {
        f"producer {k}": [("n4", {"type": "send", "key": "k", "msg": k}, 0.3 + 0.13 * k)] for k in range(1, 7)
    }
    asks["consumer"] = [("n4", {"type": "poll", "offsets": {"k": 0}}, until - 0.5)]
    return cluster(brokers.Broker, 4, asks, faults, until, network=EVEN, acks=acks, min_isr=min_isr, **settings)


@pytest.mark.parametrize("at", [0.45, 0.62, 0.74, 0.88, 1.01])
def test_a_kill_of_the_leader_loses_nothing_that_all_had(at: float) -> None:
    run = log("all", 2, [crash(at, 2.0, "n1")])
    assert brokers.lost(run) == []
    assert brokers.findings(run) == []


def test_a_kill_of_the_leader_loses_what_it_alone_had() -> None:
    run = log("1", 1, [crash(0.88, 2.0, "n1")])
    assert (brokers.sends(run)["acknowledged"], brokers.polled(run), brokers.lost(run)) == (
        [1, 2, 3, 4],
        [1, 2, 3],
        [4],
    )
    [said] = brokers.findings(run)
    assert "offset 3 of key 'k'" in said
    assert brokers.logs(run) == {"n1": [1, 2, 3], "n2": [1, 2, 3], "n3": [1, 2, 3]}
    assert brokers.ends(run, "logs").svg.count('fill="#b23a00"') == 1  # nobody has it any more, it was only told
    before = log("1", 1, [crash(0.88, 2.0, "n1")], until=1.9)
    assert brokers.ends(before, "logs").svg.count('fill="#b23a00"') == 2  # n1 has it, and is down


CUT = [partition(0.35, 1.8, "n1 n4", "n2 n3"), crash(1.7, 3.0, "n1")]


@pytest.mark.parametrize(
    ("min_isr", "unclean", "until", "acknowledged", "missing"),
    [(1, False, 2.9, 6, 6), (1, False, 4.5, 6, 0), (1, True, 4.5, 6, 6), (2, False, 4.5, 0, 0)],
)
def test_all_in_sync_may_be_one(min_isr: int, unclean: bool, until: float, acknowledged: int, missing: int) -> None:
    run = log("all", min_isr, CUT, until, unclean=unclean)
    assert (len(brokers.sends(run)["acknowledged"]), len(brokers.lost(run))) == (acknowledged, missing)


def test_committed_offsets_outlive_a_leader() -> None:
    asks = {"a": [("n1", {"type": "commit_offsets", "offsets": {"k": 5}}, 0.5)],
            "b": [("n2", {"type": "list_committed_offsets", "keys": ["k", "other"]}, 2.0)]}  # fmt: skip
    run = cluster(brokers.Broker, 4, asks, [crash(0.9, 3.0, "n1")], 3.0, network=EVEN)
    assert (run.answer("b") or {}).get("offsets") == {"k": 5}


def test_steps_of_replicas() -> None:
    fetched = ("send", "fetch b2", "fetch b3")
    assert isr.played(isr.Setting("1", 1), *fetched, "send", "kill b1").lost == [2]
    alone = (*fetched, "lag b2", "lag b3", "send")
    assert isr.played(isr.Setting("all", 1), *alone, "kill b1").leader is None
    assert isr.played(isr.Setting("all", 1), *alone, "kill b1", "restart b1").lost == []
    assert isr.played(isr.Setting("all", 1), *alone, "wreck b1", "restart b1").lost == [1, 2]
    assert isr.played(isr.Setting("all", 1, unclean=True), *alone, "kill b1").lost == [2]
    assert isr.played(isr.Setting("all", 2), *alone).said == ("acknowledged", "refused")
    with pytest.raises(ValueError, match="fetch b1 cannot happen now"):
        isr.played(isr.Setting(), "fetch b1")


def test_a_retry_is_appended_once_and_a_gap_is_refused() -> None:
    log = topics.Partition()
    assert [log.append("a", 1, "p", 0), log.append("a", 1, "p", 0), log.append("a", 2, "p", 1)] == [0, 0, 1]
    with pytest.raises(ValueError, match="sequence 5 after 1"):
        log.append("a", 3, "p", 5)


def test_read_committed_stops_before_an_open_transaction() -> None:
    log = topics.Partition()
    for name, end in (("t1", topics.COMMIT), ("t2", topics.ABORT), ("t3", "")):
        epoch = log.begin(name)
        log.append("k", name, transaction=name, epoch=epoch)
        if end:
            log.finish(name, end)
    log.append("k", "plain")
    assert [each.value for each in log.read(0, "read_committed")] == ["t1"]
    log.begin("t3")  # another process of that name: the open transaction is aborted
    assert [each.value for each in log.read(0, "read_committed")] == ["t1", "plain"]
    with pytest.raises(topics.FencedError):
        log.append("k", "zombie", transaction="t3", epoch=1)


def test_compaction_keeps_the_table_and_the_offsets() -> None:
    log = topics.Partition()
    for key, value in (("a", 1), ("b", 0), ("a", 2), ("c", 3), ("c", None)):
        log.append(key, value)
    before = topics.table_of(log.read())
    log.compact()
    assert topics.table_of(log.read()) == before == {"a": 2, "b": 0}
    assert [each.offset for each in log.log] == [1, 2]


# ---- transfers

PAIRS = [("alice", "bob"), ("bob", "alice")]
BUSY = {
    **{f"m{k}": [(0.07 * k + 0.02 * i, transfer(10 * k + i, *PAIRS[k % 2])) for i in range(1, 7)] for k in (1, 2)},
    **{f"r{k}": [(0.06, LOOK)] * 12 for k in (1, 2)},
}
FALLS = [crash(0.4, 0.9, "coord"), crash(1.2, 1.5, "s2"), crash(2.0, 2.6, "coord s1")]


@pytest.mark.parametrize("seed", range(1, 7))
def test_transfers_among_crashes_are_strict_serializable(seed: int) -> None:
    run = transfers(BUSY, FALLS, 8.0, Network(0.002, 0.03), seed)
    assert halves(run) == []
    assert transacted.verdict(transacted.of_run(run), "strict-serializable") == "valid"
    assert accounts(run)["alice"]


def test_reads_without_locks_see_half_a_transfer() -> None:
    run = transfers(BUSY, (), 8.0, Network(0.002, 0.03), 1, loose=True)
    assert transacted.verdict(transacted.of_run(run)) == "G-single"
    assert halves(run) == []


@pytest.mark.parametrize(("at", "forced", "half"), [(0.18, True, []), (0.18, False, [30]), (0.15, False, [])])
def test_a_decision_that_is_told_before_it_is_forced_may_be_half(at: float, forced: bool, half: list[int]) -> None:
    asks = {"anna": [(0.1, transfer(30, "alice", "bob"))]}
    run = transfers(asks, [crash(at, 0.9, "coord s2")], 4.0, Network(0.02, 0.02), forced=forced)
    assert halves(run) == half


def test_histories_are_read_as_they_are_written() -> None:
    late = transacted.history("anna: append x 1", "ben: r x []", "eve failed: append x 9", "carl: r x [1]")
    assert [one.status for one in late] == ["ok", "ok", "fail", "ok"]
    assert transacted.verdict(late) == "valid"
    assert transacted.verdict(late, "strict-serializable") == "G-single-realtime"
    assert transacted.verdict(transacted.together(late), "strict-serializable") == "valid"
    with pytest.raises(ValueError, match="is not"):
        transacted.history("anna appends 1")
