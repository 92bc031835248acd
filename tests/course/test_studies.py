"""Several real processes on one study in SQLite: what each rule makes of the number of trials."""

from __future__ import annotations

import pytest

from courselib.studies import search

pytest.importorskip("optuna")


@pytest.mark.heavy
def test_n_trials_is_each_processs_own() -> None:
    assert search("n_trials", total=3, processes=2, seconds=0.01).states["COMPLETE"] == 6


@pytest.mark.heavy
def test_a_trial_whose_process_was_killed_is_tried_again_and_exactly_so_many_are_complete() -> None:
    run = search("exact", total=6, processes=2, killed=2)
    assert (run.states["COMPLETE"], run.states["FAIL"], run.states["RUNNING"]) == (6, 1, 0)
    again = [trial for trial in run.trials if trial.params == run.trials[2].params and trial.number > 2]
    assert [trial.state for trial in again] == ["COMPLETE"]
    assert "svg" in run._repr_html_()


@pytest.mark.heavy
def test_without_a_heartbeat_a_dead_processs_trial_runs_for_ever() -> None:
    run = search("callback", total=4, processes=2, killed=1, heartbeat=False)
    assert run.trials[1].state == "RUNNING"


def test_another_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="none of n_trials, callback, exact"):
        search("at random")
