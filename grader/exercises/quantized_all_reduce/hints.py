"""What a wrong result of quantized_all_reduce shows: facts about its values, and what to change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grader import says
from grader.exercises.quantized_all_reduce.cases import UNEQUAL
from grader.exercises.quantized_all_reduce.float8 import Array, Job, at_every_hop, reference

FEW = 8  # elements, of which it can be chance what they have in common
E5M2 = {"mantissa": 2, "smallest": -14, "largest": 57344.0}


def why(job: Job, rank: int, got: Array, wrong: Array) -> str:
    """What the elements at the places `wrong` of a rank's result have in common, in sentences; empty if nothing."""
    values, right, place = got[wrong], job.total[wrong], int(wrong[0])
    if not np.isfinite(values).all():
        return _no_number(job, got, int(wrong[~np.isfinite(values)][0]))
    if np.array_equal(got, job.inputs[rank]):
        return "The tensor is unchanged. Write the sum into the tensor that was passed in."
    if found := _summed(job, got, wrong):
        return found
    if not values.any():
        return _lost(job, wrong)
    if UNEQUAL[1] - 1 <= min(np.abs(values)) and max(np.abs(values)) <= UNEQUAL[1] + 100 and _is_unequal(job, place):
        return (
            f"One rank has {UNEQUAL[1]:g} there and seven have {UNEQUAL[2]:g}. With codes up to 448, 256 + 15.9 rounds to "
            "256 in float8. Add float32 values, and quantize only their sum."
        )
    if (np.abs(values) < np.abs(right)).all() and (values * right >= 0).all():
        return _cut(job, wrong)
    return ""


def _no_number(job: Job, got: Array, place: int) -> str:
    """Of an element that is NaN or infinite."""
    since = place - place % job.block
    here = slice(since, since + job.block)
    last = min(since + job.block, len(got)) - 1
    empty = [rank for rank, each in enumerate(job.inputs) if not each[here].any()]
    if np.isnan(got[place]) and (empty or not job.total[here].any()):
        whose = "on every rank" if len(empty) == len(job.inputs) else f"on {says.names(empty)}"
        what = f"{whose}" if empty else "in the sum"
        return (
            f"Elements {since} to {last} are all 0 {what}: their largest magnitude is 0, and dividing by a scale of 0 "
            "gives nan. Use a scale of 1 there."
        )
    return f"The largest magnitude around element {place} is {_most(job, place):.3g}. Check what its scale becomes."


def _most(job: Job, place: int) -> float:
    """The largest magnitude that any rank has near an element."""
    since, until = max(place - job.block + 1, 0), place + job.block
    return float(max(np.abs(each[since:until]).max() for each in job.inputs))


def _summed(job: Job, got: Array, wrong: Array) -> str:
    """Whether it is the sum of other ranks, or how often they count: as close as a right sum would be to that."""
    if len(wrong) < FEW:
        return ""
    off = np.median(np.abs(got[wrong] - job.total[wrong]))

    def is_near(other: Array) -> bool:
        return bool(np.median(np.abs(got[wrong] - other[wrong])) < 0.2 * off)

    n, ranks = len(job.inputs), range(len(job.inputs))
    if is_near(job.total / n):
        return f"The wrong elements are the sum divided by {n}, an average. Do not divide the sum."
    for rank in ranks:
        if is_near(job.inputs[rank]):
            return f"The wrong elements hold the values of rank {rank} alone."
        if is_near(job.total - job.inputs[rank]):
            return f"The wrong elements are the sum without rank {rank}'s values."
        if is_near(job.total + job.inputs[rank]):
            return f"In the wrong elements, rank {rank}'s values count twice."
    return ""


def _lost(job: Job, wrong: Array) -> str:
    """Of elements that all came out as 0."""
    place = int(wrong[0])
    near, most = _most(job, place), max(float(np.abs(each).max()) for each in job.inputs)
    return (
        f"All wrong elements are 0. The largest magnitude around element {place} is {near:.3g}, and {most:.3g} in the whole "
        "tensor. Give each block a scale of its own that follows the block's largest magnitude, however small."
    )


def _is_unequal(job: Job, place: int) -> bool:
    here = sorted(float(each[place]) for each in job.inputs)
    return np.allclose(here, sorted([UNEQUAL[1], *[UNEQUAL[2]] * (len(here) - 1)]))


def _cut(job: Job, wrong: Array) -> str:
    """Of elements that are all too small in magnitude."""
    if len(wrong) >= FEW and (job.total[wrong] < 0).all() and (job.total > 0).any():
        return (
            "All wrong elements are negative and too small in magnitude. A block's scale comes from the largest absolute "
            "value in it."
        )
    return (
        "All wrong elements are too small in magnitude. No value of a block may be cut off: the code of its largest "
        "magnitude must be one that float8_e4m3fn has, at most 448, and that your code allows."
    )


def inaccurate(job: Job, error: float) -> str:
    """What gives a root mean square error of just this size."""
    for other, words in (
        (reference(job.inputs, job.block, **E5M2), "float8_e5m2 codes, which have 2 bits of mantissa, give"),
        (at_every_hop(job.inputs, job.block), "a ring that quantizes partial sums at every hop gives"),
    ):
        known = job.error(other)
        if abs(error / known - 1) < 0.03:
            return f"For comparison, {words} {known:.4g}."
    return "Quantize an element at most twice: on the way to its owner, and on the way back. Add in float32."


def apart(job: Job, results: Sequence[Array], rank: int) -> str:
    """Why a rank's result may have other bits than others': whether it is more accurate there."""
    others = [each for other, each in enumerate(results) if other != rank]
    alone = np.flatnonzero(np.all([each != results[rank] for each in others], axis=0))
    if not len(alone):
        return ""
    mine, theirs = (np.abs(each[alone] - job.total[alone]).mean() for each in (results[rank], others[0]))
    since, until = int(alone[0]), int(alone[-1])
    if mine < 0.9 * theirs and until - since < 1.1 * len(alone) + FEW:
        return (
            f"In elements {since} to {until} rank {rank} differs from every other rank, and its values are closer to the "
            "sum. The owner must also use what the others get from it: the sum after it was quantized."
        )
    return ""
