"""The planner of chapter 20: what it says agrees with the exercise's statement, and with a search of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from courselib.planner import best, counted, judged, parameters, useful_flops
from grader.planning import ClusterSpec, ModelSpec, Plan

GPT3 = ModelSpec(layers=96, hidden=12288, heads=96, sequence=2048, vocabulary=50304, batch=1024)
CLUSTER = ClusterSpec(512, 8, 80e9, 600e12, 2e-6, 450e9, 4e-6, 50e9)

# dp, tp, pp, micro-batches, stage, recompute: GB, seconds, as in the statement of parallel_plan
WORKED = [
    (Plan(16, 4, 8, 64, 1, False), 47.09, 9.606),
    (Plan(16, 4, 8, 64, 0, False), 109.98, 9.606),
    (Plan(16, 4, 8, 64, 1, True), 27.98, 12.621),
    (Plan(8, 8, 8, 16, 1, True), 21.06, 17.695),
    (Plan(64, 8, 1, 16, 2, False), 58.68, 23.710),
]


@pytest.mark.parametrize(("plan", "gigabytes", "seconds"), WORKED)
def test_the_worked_numbers_of_the_exercise(plan: Plan, gigabytes: float, seconds: float) -> None:
    found = judged(GPT3, CLUSTER, plan)
    assert found.memory / 1e9 == pytest.approx(gigabytes, abs=0.005)
    assert found.seconds == pytest.approx(seconds, abs=0.0005)


def test_the_best_plan_and_how_many_there_are() -> None:
    assert best(GPT3, CLUSTER).plan == WORKED[0][0]
    assert counted(GPT3, CLUSTER) == (1920, 1059)


def test_a_fixed_field_is_kept_and_never_faster() -> None:
    narrowed = best(GPT3, CLUSTER, zero_stage=3)
    assert narrowed.plan.zero_stage == 3
    assert narrowed.memory <= CLUSTER.memory
    assert narrowed.seconds >= best(GPT3, CLUSTER).seconds


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(ValueError, match="does not divide the 96 heads"):
        judged(GPT3, CLUSTER, Plan(8, 64, 1, 1, 1, False))
    with pytest.raises(ValueError, match="no legal plan fits into 1 GB"):
        best(GPT3, replace(CLUSTER, memory=1e9))


def test_sizes() -> None:
    assert parameters(GPT3) == 12 * 12288**2 * 96 + 50304 * 12288
    assert useful_flops(GPT3) == pytest.approx(6 * parameters(GPT3) * 1024 * 2048, rel=0.04)  # 6 N D, and attention
