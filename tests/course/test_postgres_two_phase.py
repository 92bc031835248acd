"""The lab on PostgreSQL's two-phase commit: what banks in doubt look like, and that nothing of the lab outlives it."""

from __future__ import annotations

import json
import signal

import labs
import pytest

pytestmark = pytest.mark.heavy
LAB = labs.FOLDER / "postgres_two_phase.py"


def test_a_prepared_transaction_holds_its_locks_until_a_new_coordinator_decides() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--json"))["figures"]
    assert figures["blocked"] == "55P03"  # lock_not_available
    assert figures["locks_held"] > 0
    points = ("prepared", "decided", "told_A")
    after = [(figures[f"alice_after_{point}"], figures[f"bob_after_{point}"]) for point in points]
    assert after == [(100, 100), (70, 130), (40, 160)]


@pytest.mark.parametrize("number", labs.ENDINGS, ids=lambda number: number.name)
def test_no_server_outlives_the_lab(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "postgres")
