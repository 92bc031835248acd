"""Every reference has full marks in both isolations. The best one here is what all other tests run in: this is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from often import every_other_day

from grader import submission
from grader.authoring import verdicts
from grader.grading import grade
from grader.ranks.engines import Engines
from grader.registry import find
from grader.sandbox import modes

SEED = 1
TODAY = int(os.environ["RANKUP_SHARE"])  # see conftest

pytestmark = pytest.mark.skipif(modes.mode() == "none", reason="without isolation all other tests run like this")


def references() -> Iterator[ParameterSet]:
    """Where a verdict costs a second, those whose day it is; the others are heavy, where it costs some seconds every
    other day, and of dear ones those of today."""
    for path in sorted(Path(__file__).parents[2].glob("solutions/*/*.ipynb")):
        cost, today = find(path.stem).cost, verdicts.share(path.stem, verdicts.SHARES) == TODAY
        often = cost == "second" or (cost == "seconds" and every_other_day(path.stem))
        daily = pytest.mark.heavy if today or often else pytest.mark.soak
        yield pytest.param(path, id=path.stem, marks=[] if today and cost == "second" else daily)


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
