"""The goodput simulator: every second is counted once, and the counts agree with what can be worked out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from courselib.goodput import Run, expected_loss, simulate, young_daly

DAY = 86400.0
NEVER = Run(nodes=1, node_mtbf=1e15, interval=90, cost=10)
JOB = Run(nodes=1000, node_mtbf=300 * DAY, interval=1800, cost=60, detect=600, restart=300, spares=24, repair=3 * DAY)
IN_MEMORY = replace(JOB, memory_interval=60, memory_cost=0.5, memory_lost=0.1)


def test_without_failures_only_saving_is_lost() -> None:
    assert simulate(NEVER, 100_000).shares() == pytest.approx(
        {"useful": 0.9, "saving": 0.1, "redone": 0, "detecting": 0, "waiting": 0, "restarting": 0}
    )


@pytest.mark.parametrize("run", [NEVER, JOB, IN_MEMORY, replace(JOB, spares=0), replace(JOB, shape=0.7)])
@pytest.mark.parametrize("seed", range(4))
def test_every_second_is_counted_once(run: Run, seed: int) -> None:
    spent = simulate(run, 30 * DAY, seed)
    assert spent.total == pytest.approx(30 * DAY)
    assert all(share >= 0 for share in spent.shares().values())


def test_the_same_seed_is_the_same_run() -> None:
    assert simulate(JOB, 30 * DAY, 5) == simulate(JOB, 30 * DAY, 5) != simulate(JOB, 30 * DAY, 6)


@pytest.mark.parametrize("shape", [1.0, 0.7])
def test_failures_come_as_often_as_the_mean_says(shape: float) -> None:
    run = replace(NEVER, nodes=100, node_mtbf=100 * 3600.0, shape=shape)  # one an hour, and no time to recover
    assert simulate(run, 20_000 * 3600.0).failures == pytest.approx(20_000, rel=0.05)


def test_the_best_interval_is_near_young_and_daly() -> None:
    run = Run(nodes=100, node_mtbf=100 * 12 * 3600.0, interval=1, cost=60)
    best = young_daly(run.cost, run.mtbf)
    at = {factor: simulate(replace(run, interval=factor * best), 3000 * DAY).goodput for factor in (0.25, 1, 4)}
    assert at[1] > at[0.25]
    assert at[1] > at[4]
    assert 1 - at[1] == pytest.approx(expected_loss(best, run.cost, run.mtbf), rel=0.1)


def test_what_helps_helps() -> None:
    def goodput(run: Run) -> float:
        return simulate(run, 365 * DAY, 3).goodput

    assert goodput(replace(JOB, spares=0)) < goodput(JOB) < goodput(replace(JOB, detect=10))
    assert goodput(JOB) < goodput(IN_MEMORY)
    assert goodput(replace(IN_MEMORY, memory_lost=1.0)) < goodput(IN_MEMORY)


def test_memory_copies_that_are_always_lost_cost_only() -> None:
    run = replace(JOB, memory_interval=60, memory_cost=0.0, memory_lost=1.0)
    assert simulate(run, 365 * DAY, 2).goodput == pytest.approx(simulate(JOB, 365 * DAY, 2).goodput, abs=0.01)


def test_an_interval_is_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        simulate(replace(JOB, interval=0), DAY)
