"""The cost model of parallel_plan against the notebook's: its worked numbers, and what its solution computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grader import submission
from grader.exercise import Draw
from grader.exercises.parallel_plan import costs, jobs
from grader.exercises.parallel_plan.costs import Plans
from grader.exercises.parallel_plan.jobs import Job
from grader.planning import ClusterSpec, ModelSpec, Plan

NOTEBOOK = Path(__file__).parents[2] / "solutions" / "08-tensor-pipeline-3d" / "parallel_plan.ipynb"
GPT3 = Job(ModelSpec(96, 12288, 96, 2048, 50304, 1024), ClusterSpec(512, 8, 80e9, 600e12, 2e-6, 450e9, 4e-6, 50e9))


@pytest.fixture(scope="module")
def solution() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(submission.read(NOTEBOOK, ("plan",)).source, names)
    return names


@pytest.mark.parametrize(
    ("plan", "gigabytes", "seconds"),
    [
        (Plan(16, 4, 8, 64, 1, False), 47.09, 9.606),
        (Plan(16, 4, 8, 64, 0, False), 109.98, 9.606),
        (Plan(16, 8, 4, 64, 1, False), 36.45, 10.036),
        (Plan(16, 4, 8, 64, 1, True), 27.98, 12.621),
        (Plan(512, 1, 1, 2, 3, False), 87.60, 12.620),
        (Plan(16, 16, 2, 64, 1, False), 31.14, 13.494),
        (Plan(8, 8, 8, 16, 1, True), 21.06, 17.695),
        (Plan(64, 8, 1, 16, 2, False), 58.68, 23.710),
    ],
)
def test_the_worked_numbers(plan: Plan, gigabytes: float, seconds: float) -> None:
    plans = Plans.one(plan)
    assert not costs.illegal(GPT3.model, GPT3.cluster, plan)
    assert GPT3.memory(plans).all[0] / 1e9 == pytest.approx(gigabytes, abs=0.005)
    assert GPT3.seconds(plans).all[0] == pytest.approx(seconds, abs=0.0005)


def test_the_worked_example_has_one_best_plan() -> None:
    plans = costs.legal(GPT3.model, GPT3.cluster)
    assert len(plans.dp) == 1920
    assert np.isfinite(GPT3.times(plans)).sum() == 1059
    assert GPT3.best()[0] == Plan(16, 4, 8, 64, 1, False)


@pytest.mark.parametrize("base", jobs.BASES, ids=lambda base: f"{base.group}-{base.cluster.devices}")
def test_plans_cost_what_the_solution_says(base: jobs.Base, solution: dict[str, Any]) -> None:
    job = Job(base.model, base.cluster)
    plans = costs.legal(job.model, job.cluster)
    assert len(plans.dp) == len(list(solution["legal_plans"](job.model, job.cluster)))
    memory, seconds = job.memory(plans).all, job.seconds(plans).all
    for index in range(0, len(plans.dp), 7):
        plan = plans[index]
        assert memory[index] == pytest.approx(solution["memory_bytes"](job.model, job.cluster, plan))
        assert seconds[index] == pytest.approx(solution["step_seconds"](job.model, job.cluster, plan))


def test_every_draw_tells_mistakes_from_plans() -> None:
    assert sum(base.group not in ("legal", "fits") for base in jobs.BASES) >= 10
    for seed in range(3):
        *drawn, full = jobs.cases(Draw(seed))
        best = full.expected.best()[0]
        assert full.expected.memory(Plans.one(best)).all[0] == full.expected.cluster.memory
        for case, base in zip(drawn, jobs.BASES, strict=True):
            assert all(case.expected.tells(mistake) for mistake in base.telling)
            assert not case.expected.tells("no mistake")
