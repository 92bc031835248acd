"""The passes of a pipeline's stages are named in its picture."""

from __future__ import annotations

import pytest

from grader.authoring import verdicts
from grader.grading import grade, only
from grader.ranks.engines import Engines
from grader.registry import find


@pytest.mark.parametrize("which", ["reference", "wrong/flushes_every_p_micro_batches"])
def test_each_pass_is_named_in_the_picture(engines: Engines, which: str) -> None:
    exercise = only(find("pipeline"), "1f1b_bubble")
    verdict = grade(exercise, verdicts.handed_in("pipeline", which), engines, verdicts.SEED)
    [check] = verdict.checks
    assert check.diagram is not None
    assert "forward pass (F0: of micro-batch 0)" in check.diagram
    counts = [check.diagram.count(f">{name}</text>") for name in ("F0", "B0", "F5", "B5")]
    assert len(set(counts)) == 1, "every micro-batch goes once forward and once backward through each stage"
    assert counts[0] >= 2
