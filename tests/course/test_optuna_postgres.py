"""The lab on one Optuna study in PostgreSQL: what each rule makes of it, and that no server outlives the lab."""

from __future__ import annotations

import json
import signal

import labs
import pytest
from often import on_day

pytestmark = on_day(1)
LAB = labs.FOLDER / "optuna_postgres.py"


def test_exactly_as_many_trials_are_complete_as_were_asked_for_though_a_process_is_killed() -> None:
    figures = json.loads(labs.run_or_skip(LAB, "--json"))["figures"]
    assert figures["complete_n_trials"] == 72
    assert 12 <= figures["complete_callback"] <= 17  # so many as were begun before somebody saw twelve
    assert figures["complete_exact"] == 12
    assert [figures[f"twice_{rule}"] for rule in ("n_trials", "callback", "exact")] == [0, 0, 0]
    assert (figures["killed"], figures["running"]) == ("FAIL", 0)
    assert figures["again"] >= 1


@pytest.mark.parametrize("number", labs.BY_INTERRUPT, ids=lambda number: number.name)
def test_no_server_outlives_the_lab_of_studies(number: signal.Signals) -> None:
    labs.kill_once_started(LAB, number, "postgres")
