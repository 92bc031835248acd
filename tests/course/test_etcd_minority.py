"""The lab on etcd: without a majority nothing new is promised, and nothing of the lab outlives it."""

from __future__ import annotations

import json
import signal

import labs
import pytest

pytestmark = pytest.mark.heavy
LAB = labs.FOLDER / "etcd_minority.py"


def test_the_minority_answers_only_what_may_be_old() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--json"))["figures"]
    for name, stale in (("cut_off", "1"), ("alone", "2")):
        assert figures[f"{name}_linearizable_read"].startswith("no answer")
        assert figures[f"{name}_write"].startswith("no answer")
        assert "no leader" in figures[f"{name}_write_that_requires_a_leader"]
        assert figures[f"{name}_serializable_read"] == stale
    assert figures["doubt"] == "nothing"


@pytest.mark.parametrize("number", labs.BY_TERMINATION, ids=lambda number: number.name)
def test_no_server_outlives_the_lab(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "etcd")
