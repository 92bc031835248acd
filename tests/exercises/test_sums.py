"""What a wrong sum looks like in a diagnosis: the values of a small tensor side by side."""

from __future__ import annotations

import numpy as np
import pytest

from grader.exercise import Draw
from grader.exercises.common import sums
from grader.ranks.program import CallResult, Strided
from grader.trace.events import Trace
from grader.verdict import Diagnosis

INPUTS = [np.array([1, 20]), np.array([300, 4000])]


def judged(outputs: list[list[int]], length: int = 2) -> Diagnosis:
    """The diagnosis of two ranks that end with `outputs`: for each element rank 0's own value (0) or the sum (1)."""
    case = sums.contiguous(Draw(7), "sum", 2, (length,), "int64")
    mine = [tensor.view() for tensor in case.tensors]
    values = [mine[0], mine[0] + mine[1]]
    arguments = tuple((Strided.of(np.array([values[which][at] for at, which in enumerate(row)])),) for row in outputs)
    found = sums.judge(case, CallResult(arguments, (None, None), Trace(2)), "a.py")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ([301, 4020], "[301, 4020]"),
        ([301, 20], "[301, 20 (rank 0 alone)]"),
        ([601, 4020], "[601 (rank 1 twice), 4020]"),
        ([301, 7], "[301, 7 (wrong)]"),
    ],
)
def test_every_wrong_value_says_whose_it_is(output: list[int], told: str) -> None:
    assert sums.side_by_side(INPUTS[0] + INPUTS[1], np.array(output), INPUTS) == ("[301, 4020]", told)


def test_matrices_are_nested_lists() -> None:
    parts = [array.reshape(1, 2) for array in INPUTS]
    right, wrong = sums.side_by_side(parts[0] + parts[1], parts[0], parts)
    assert (right, wrong) == ("[[301, 4020]]", "[[1 (rank 0 alone), 20 (rank 0 alone)]]")


def test_a_small_tensor_is_told_whole_and_of_a_large_one_the_first_wrong_element() -> None:
    found = judged([[1, 0], [1, 1]])
    assert found.expected is not None
    assert found.got is not None
    assert found.expected.count(", ") == 1
    assert found.got.endswith(" (rank 0 alone)]")
    large = judged([[1] * 19 + [0], [1] * 20], 20)
    assert (large.expected or "").startswith("element 19 = ")


@pytest.mark.parametrize("through_float64", [True, False])
def test_a_sum_that_is_off_by_one_did_not_go_through_float64(through_float64: bool) -> None:
    case = sums.contiguous(Draw(7), "sum", 2, (9,), "int64")
    inputs = [tensor.view() for tensor in case.tensors]
    total = (inputs[0].astype(float) + inputs[1]).astype(np.int64) if through_float64 else inputs[0] + inputs[1] + 1
    arguments = ((Strided.of(total),), (Strided.of(total),))
    found = sums.judge(case, CallResult(arguments, (None, None), Trace(2)), "a.py")
    assert found is not None
    assert ("float64 cannot hold" in found.message) == through_float64, found.message
