"""The store of versions under each isolation level: what it forbids, and that nothing that is serializable is wrong."""

from __future__ import annotations

import random

import pytest

from courselib import anomalies, transacted
from courselib.contention import contended
from courselib.interleaved import play
from courselib.isolation import LEVELS

SERIALIZABLE = ("ssi", "occ", "2pl", "wound-wait")
ALLOWED = {
    "none": {"G0", "G1a", "G1b", "G1c", "G-single", "G2-item"},
    "read uncommitted": {"G1a", "G1b", "G1c", "G-single", "G2-item"},
    "read committed": {"G-single", "G2-item"},
    "snapshot": {"G2-item"},
} | {level: set() for level in SERIALIZABLE}


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_allows_its_anomalies_and_no_others(level: str) -> None:
    draw, found = random.Random(15), set()
    for told in anomalies.SCENARIOS.values():
        for order in [told.order, *("".join(draw.choices("123", k=20)) for _ in range(60))]:
            found.add(play(told.texts, order + "123" * 12, level, told.initial).wrong)
    assert found - {""} == ALLOWED[level]


@pytest.mark.parametrize("level", LEVELS)
def test_every_transaction_ends(level: str) -> None:
    for name in anomalies.SCENARIOS:
        assert set(anomalies.whole(name, level).states) <= {"committed", "refused", "aborted"}


def test_two_deposits() -> None:
    deposits = ["r x; w x +10; commit", "r x; w x +20; commit"]
    assert play(deposits, "121122", "read committed", {"x": 100}).final == {"x": 120}
    locked = ["u x; w x +10; commit", "u x; w x +20; commit"]
    assert play(locked, "121122", "read committed", {"x": 100}).final == {"x": 130}
    assert play(deposits, "121122", "snapshot", {"x": 100}).states == ("committed", "refused")


def test_only_the_third_transaction_makes_the_skew() -> None:
    told = anomalies.SCENARIOS["read-only skew"]
    assert play(told.texts, told.order, "snapshot", told.initial).wrong == "G2-item"
    assert play(told.texts[:2], told.order, "snapshot", told.initial).wrong == ""


@pytest.mark.parametrize("keys", [2, 6])
@pytest.mark.parametrize("level", SERIALIZABLE)
def test_under_load_it_is_serializable_by_the_checker(level: str, keys: int) -> None:
    for seed in range(3):
        ran = contended(level, keys, clients=6, seconds=0.2, reads=2, writes=1, append=True, seed=seed)
        assert ran.commits > 5
        assert transacted.verdict(transacted.of_dicts(ran.history)) == "valid"


def test_snapshots_under_load_show_write_skew_and_nothing_worse() -> None:
    ran = contended("snapshot", 4, clients=6, seconds=0.3, reads=2, writes=1, append=True)
    transactions = transacted.of_dicts(ran.history)
    assert transacted.verdict(transactions, "snapshot-isolation") == "valid"
    assert transacted.verdict(transactions) == "G2-item"


@pytest.mark.parametrize("level", ["snapshot", *SERIALIZABLE])
def test_no_increment_is_lost(level: str) -> None:
    assert contended(level, 3, seconds=0.3, reads=2, writes=1).lost == 0


@pytest.mark.heavy
def test_what_chapter_15_says_of_the_counter_and_the_report() -> None:
    plain, locked = (
        contended("read committed", 1, seconds=1.0, reads=1, writes=1, lock=lock) for lock in (False, True)
    )
    assert (plain.commits, plain.lost, locked.lost) == (998, 935, 0)
    assert locked.commits == pytest.approx(500, abs=2)
    reports = {level: contended(level, 200, seconds=2.0, reports=1).reports for level in LEVELS if level != "none"}
    assert (reports["2pl"], reports["occ"]) == (0, 0)
    assert min(reports["wound-wait"], reports["snapshot"], reports["ssi"]) >= 5


def test_snapshot_and_ssi_are_one_where_all_that_is_read_is_written() -> None:
    rates = {level: contended(level, 25, seconds=0.5, writes=4).commits for level in ("snapshot", "ssi")}
    assert rates["snapshot"] == rates["ssi"]
