"""What a wrong result of quantized_all_reduce shows: facts about its values, and what to change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from grader import says
from grader.exercises.quantized_all_reduce.cases import UNEQUAL
from grader.exercises.quantized_all_reduce.float8 import Array, Job, at_every_hop, quantized, reference

BIASED = 0.01  # of the sum, by which results are too small in magnitude and not by chance
FEW = 8  # elements, of which it can be chance what they have in common
ABSOLUTE = "A block's scale comes from the largest absolute value in it."
EVERY = "The owner of an element must add the values of every rank once, its own too."
RULE = (
    "Quantize an element at most twice: on the way to its owner, and on the way back. Use float8_e4m3fn codes with a "
    "scale for each block, and add in float32."
)
E5M2 = {"mantissa": 2, "smallest": -14, "largest": 57344.0}


def why(job: Job, rank: int, got: Array, wrong: Array, contiguous: bool = True) -> str:
    """What the elements at the places `wrong` of a rank's result have in common, in sentences; empty if nothing."""
    values, right, place = got[wrong], job.total[wrong], int(wrong[0])
    if not np.isfinite(values).all():
        return _no_number(job, got, int(wrong[~np.isfinite(values)][0]))
    if np.array_equal(got, job.inputs[rank]):
        if len(got) < FEW:
            return (
                f"The tensor holds what rank {rank} passed in. Check that the values of all ranks are added, and that the "
                f"sum is written into this tensor.{_rest(job)}"
            )
        copied = "" if contiguous else " It is not contiguous, so reshape(-1) and flatten() return a copy of it."
        return "The tensor is unchanged. Write the sum into the tensor that was passed in." + (copied or _rest(job))
    since = int(np.flatnonzero(got != job.inputs[rank]).max()) + 1
    if wrong.min() >= since:
        rest = _rest(job) if wrong.min() >= _whole(job) else " The elements at the end must be summed, too."
        return f"From element {since:,} on, the tensor still has its own values.{rest}"
    if not values.any():
        return _lost(job, got, wrong)
    if found := (
        _scaled(job, got)
        or _summed(job, got, wrong)
        or _without_abs(job, got, wrong)
        or _by_other_scales(job, got, wrong)
    ):
        return found
    if UNEQUAL[1] - 1 <= min(np.abs(values)) and max(np.abs(values)) <= UNEQUAL[1] + 100 and _is_unequal(job, place):
        return (
            f"One rank has {UNEQUAL[1]:g} there and seven have {UNEQUAL[2]:g}. With codes up to 448, 256 + 15.9 rounds to "
            "256 in float8. Add float32 values, and quantize only their sum."
        )
    small = wrong[(np.abs(values) < np.abs(right)) & (values * right >= 0)]
    return _cut(job, got, small, len(wrong)) if len(small) >= 0.8 * len(wrong) else ""


def _whole(job: Job) -> int:
    """How many elements there are in whole blocks, as many for each rank."""
    each = len(job.inputs) * job.block
    return len(job.total) // each * each


def _rest(job: Job) -> str:
    n = len(job.inputs)
    return f" N * block = {n * job.block} does not divide the length." if _whole(job) < len(job.total) else ""


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


def _scaled(job: Job, got: Array) -> str:
    """Whether all elements are the sum times a factor, as close to that as two quantizations allow."""
    large = np.abs(job.total) > 4 * job.allowed
    if large.sum() < FEW:
        return ""
    n, factor = len(job.inputs), float(np.median(got[large] / job.total[large]))
    if abs(factor - 1) < 0.3 or not (np.abs(got - factor * job.total) <= 1.2 * abs(factor) * job.allowed).all():
        return ""
    if abs(factor * n - 1) < 0.1:
        return f"All elements are the sum divided by {n}, an average. Do not divide the sum."
    if n > 1 and abs(factor / n - 1) < 0.1:
        return (
            f"All elements are about {factor:.3g} times the sum, and there are {n} ranks. Add each rank's values once, and "
            "dequantize with the scale that they were divided by."
        )
    return (
        f"All elements are about {factor:.3g} times the sum. Dequantize with the scale that the values were divided by "
        "when they were quantized."
    )


def _summed(job: Job, got: Array, wrong: Array) -> str:
    """Whose values wrong elements are the sum of: all of them, or those around the worst."""
    near = wrong[np.abs(wrong - wrong[0]) < 2 * job.block]
    for places, which in ((wrong, "The wrong elements"), (near, "")):
        if len(places) < FEW:
            return ""
        off = np.median(np.abs(got[places] - job.total[places]))
        which = which or f"The wrong elements from {places.min()} to {places.max()}"
        for rank, values in enumerate(job.inputs):
            for other, said in (
                (values, f"hold the values of rank {rank} alone. {EVERY}"),
                (job.total - values, f"are the sum without rank {rank}'s values. {EVERY}"),
                (job.total + values, f"are the sum with rank {rank}'s values counted twice. {EVERY}"),
            ):
                apart_from = np.abs(got[places] - other[places])
                if (apart_from <= job.allowed[places]).all() and np.median(apart_from) < 0.2 * off:
                    return f"{which} {said}"
    return ""


def _without_abs(job: Job, got: Array, wrong: Array) -> str:
    """Whether wrong elements are what comes of scales from the largest value of each block, not the largest magnitude."""
    other = reference(job.inputs, job.block, size=np.positive)[wrong]
    same = np.abs(got[wrong] - other) <= 1e-3 * np.abs(other)
    return (
        f"The wrong elements are what scales from the largest value of each block give. {ABSOLUTE}"
        if same.all()
        else ""
    )


def _by_other_scales(job: Job, got: Array, wrong: Array) -> str:
    """Whether the block of the first wrong element is a sum in which some ranks' values count more or less than once."""
    since = int(wrong[0]) // job.block * job.block
    here = slice(since, min(since + job.block, len(got)))
    values = np.array([each[here] for each in job.inputs])
    if values.shape[1] < 2 * max(len(values), FEW) or len(values) == 1:
        return ""
    factors = np.linalg.lstsq(values.T, got[here], rcond=None)[0]
    off, left = got[here] - job.total[here], got[here] - factors @ values
    others = [rank for rank, factor in enumerate(factors) if abs(factor - 1) > 0.15]
    if not others or factors.min() < 0.3 or np.linalg.norm(left) > 0.2 * np.linalg.norm(off):
        return ""
    rank = max(others, key=lambda each: abs(factors[each] - 1))
    return (
        f"Elements {since} to {here.stop - 1} are about a sum in which rank {rank}'s values are multiplied by "
        f"{factors[rank]:.3g}. Multiply a rank's codes by the scale that the same rank divided the same block by."
    )


def _lost(job: Job, got: Array, wrong: Array) -> str:
    """Of elements that all came out as 0."""
    place = int(wrong[0])
    last, whole = len(job.total) % job.block, _whole(job)
    if last and wrong.min() >= len(job.total) - last:
        return (
            f"All wrong elements are 0. They are in the last block, which has only {last} of {job.block} elements. Sum it, too. "
            "If you pad it, pad it with zeros in every call: nothing else may count for its scale."
        )
    if wrong.min() >= whole and not got[whole:].any():
        return f"From element {whole} on, all elements are 0.{_rest(job)} The elements at the end must be summed, too."
    near, most = _most(job, place), max(float(np.abs(each).max()) for each in job.inputs)
    return (
        f"All wrong elements are 0. The largest magnitude around element {place} is {near:.3g}, and {most:.3g} in the whole "
        "tensor. Give each block a scale of its own that follows the block's largest magnitude, however small."
    )


def _is_unequal(job: Job, place: int) -> bool:
    here = sorted(float(each[place]) for each in job.inputs)
    return np.allclose(here, sorted([UNEQUAL[1], *[UNEQUAL[2]] * (len(here) - 1)]))


def _cut(job: Job, got: Array, small: Array, count: int) -> str:
    """Of elements that are too small in magnitude, all that are wrong or nearly."""
    n = len(job.inputs)
    if count < FEW and (n * np.abs(got[small] - job.total[small] / n) <= 1.2 * job.allowed[small]).all():
        return ""  # as well an average
    share = "All wrong elements" if len(small) == count else f"{len(small)} of the {count} wrong elements"
    if len(small) >= FEW and (job.total[small] < 0).all() and (job.total > 0).any():
        return f"{share} are negative and too small in magnitude. {ABSOLUTE}"
    if count < FEW:
        most = float(np.max(np.abs(got[small] / job.total[small])))
        return (
            f"{share} are too small in magnitude: at most {most:.3g} times the sum. Check that the largest absolute value "
            "in a block becomes a code of at most 448, and that the codes are multiplied with the scale that the values "
            "were divided by."
        )
    return (
        f"{share} are too small in magnitude. Choose each block's scale so that the largest absolute value in the block "
        "becomes a code of at most 448. Then no value is cut off."
    )


def inaccurate(job: Job, got: Array, error: float) -> str:
    """What gives a root mean square error of just this size, or a bias."""
    codes = [quantized(each, job.block) for each in job.inputs]
    for other, words in (
        (reference(job.inputs, job.block, **E5M2), "float8_e5m2 codes, which have 2 bits of mantissa, give"),
        (at_every_hop(job.inputs, job.block), "a ring that quantizes partial sums at every hop gives"),
        (at_every_hop(codes, job.block), "an owner that rounds its sum to float8 after every addition gets"),
    ):
        known = job.error(other)
        if abs(error / known - 1) < 0.03:
            return f"For comparison, {words} {known:.4g}. {RULE}"
    lost = 1 - float(got @ job.total / (job.total @ job.total))
    if lost > BIASED:
        return (
            f"On average, the results are {100 * lost:.2g} % too small in magnitude. Rounding to the nearest code has no such "
            "bias: look for values that are truncated or cut off."
        )
    return RULE


def apart(job: Job, results: Sequence[Array], rank: int) -> str:
    """Whether all ranks but this one have the same somewhere, and it is closer to the sum there."""
    first, *others = [each for other, each in enumerate(results) if other != rank]
    alone = (first != results[rank]) & np.all([each == first for each in others], axis=0)
    places = np.flatnonzero(alone)
    if not others or len(places) < FEW or len(places) < 0.5 * (places[-1] - places[0] + 1):  # no shard
        return ""
    mine, theirs = (np.abs(each[alone] - job.total[alone]).mean() for each in (results[rank], first))
    if mine > 0.9 * theirs:
        return ""
    return (
        f"Between elements {places[0]} and {places[-1]}, {len(places)} of rank {rank}'s values differ from those of all "
        "other ranks, which agree, and are closer to the sum. The owner of a shard must also use what the others get from "
        "it: the sum after it was quantized."
    )
