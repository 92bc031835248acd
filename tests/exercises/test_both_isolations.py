"""Every reference has full marks in both isolations. The best one here is what all other tests run in: this is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from grader import submission
from grader.exercise import Exercise
from grader.grading import grade
from grader.ranks.engines import Engines
from grader.registry import find
from grader.sandbox import modes

SEED = 1
LIVES = ("checkpoint", "elastic_training", "optuna_shared", "serve_checkpoint")  # many processes, one after another

pytestmark = pytest.mark.skipif(modes.mode() == "none", reason="without isolation all other tests run like this")


def takes_long(exercise: Exercise) -> bool:
    return bool(exercise.spark or exercise.ray) or exercise.name in LIVES


def references() -> Iterator[ParameterSet]:
    for path in sorted(Path(__file__).parents[2].glob("solutions/*/*.ipynb")):
        yield pytest.param(path, id=path.stem, marks=[pytest.mark.heavy] * takes_long(find(path.stem)))


@pytest.fixture(scope="module")
def open_engines() -> Iterator[Engines]:
    """Warm engines whose boxes are not shut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(modes.MOST, "none")
        with Engines() as warm:
            yield warm


@pytest.mark.parametrize("path", list(references()))
def test_a_reference_has_full_marks_without_isolation(path: Path, open_engines: Engines) -> None:
    exercise = find(path.stem)
    verdict = grade(exercise, submission.read(path, exercise.function_names), open_engines, SEED)
    assert open_engines.warm.mode == "none"
    lost = {
        check.name: check.diagnosis and check.diagnosis.message for check in verdict.checks if check.status != "pass"
    }
    assert verdict.points == verdict.max_points, lost
