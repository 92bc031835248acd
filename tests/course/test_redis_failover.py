"""The lab on Redis Sentinel: what a cut-off master acknowledges is lost, and nothing of the lab outlives it."""

from __future__ import annotations

import json
import signal

import labs
import pytest

pytestmark = pytest.mark.heavy
LAB = labs.FOLDER / "redis_failover.py"


def test_every_write_that_the_cut_off_master_acknowledged_is_lost() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--json"))["figures"]
    for name in ("plain", "bound"):
        assert figures[f"{name}_acknowledged"] > 0
        assert figures[f"{name}_kept"] == 0
        assert figures[f"{name}_kept_before"] == 100
    assert figures["plain_refused"] == 0
    assert figures["bound_refused"] > 0  # a bound on the loss, and not none


@pytest.mark.parametrize("number", labs.BY_INTERRUPT, ids=lambda number: number.name)
def test_no_server_outlives_the_lab(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "redis-server")
