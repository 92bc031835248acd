"""What quantizing blocks to float8_e4m3fn does to numbers, in numpy and float64: the reference, and how far off a sum of
two quantizations can be.

The format is that of Micikevicius et al. 2022, FP8 formats for deep learning, section 3: four bits of exponent, three of
mantissa, no infinity, 448 the largest. As torch's cast does, what is larger becomes 448.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LARGEST = 448.0
HALF_STEP = 2.0**-4  # of a value with three bits of mantissa, relative to its power of two
SUM_GROWS = 1.07  # by so much the errors of its terms can enlarge a sum's block maximum
FLOAT32 = 1e-6  # what adding up a few float32 may cost, relative to their magnitudes


def rounded(values: Array, mantissa: int = 3, smallest: int = -6, largest: float = LARGEST) -> Array:
    """To the nearest number with so many bits of `mantissa`, ties to even; 2**`smallest` is the least normal one."""
    size = np.minimum(np.abs(values), largest)
    _, exponent = np.frexp(size)
    step = np.ldexp(1.0, np.maximum(exponent - 1, smallest) - mantissa)
    return np.asarray(np.copysign(np.minimum(np.round(size / step) * step, largest), values))


def quantized(flat: Array, block: int, size: Callable[[Array], Array] = np.abs, **code: Any) -> Array:
    """A vector whose blocks went through codes, with scales that make a block's largest magnitude the largest code; or
    what is largest by another `size`."""
    rows = np.pad(flat, (0, -len(flat) % block)).reshape(-1, block)
    scales = size(rows).max(1, keepdims=True, initial=0.0) / code.get("largest", LARGEST)
    scales[scales == 0] = 1.0
    return np.asarray((rounded(rows / scales, **code) * scales).reshape(-1)[: len(flat)])


def reference(inputs: Sequence[Array], block: int, **code: Any) -> Array:
    """The sum of vectors that were quantized once each, and once more when they were added up."""
    return quantized(np.sum([quantized(each, block, **code) for each in inputs], axis=0), block, **code)


def at_every_hop(inputs: Sequence[Array], block: int) -> Array:
    """The sum where partial sums are quantized each time that they are passed on: rank r is the r-th of a ring."""
    total = inputs[0]
    for each in inputs[1:]:
        total = quantized(total, block) + each
    return quantized(total, block)


def around(values: Array, block: int) -> Array:
    """Of each element the greatest magnitude among the 2 * block - 1 elements around it: whichever block it is in, that
    block's maximum is at most this."""
    width, reach = 2 * block - 1, 1
    most = np.pad(np.abs(values), block - 1)
    while reach * 2 <= width:  # most[i] is that of elements i to i + reach - 1
        most = np.maximum(most[: len(most) - reach], most[reach:])
        reach *= 2
    return np.asarray(np.maximum(most[: len(values)], most[width - reach : width - reach + len(values)]))


@dataclass(frozen=True)
class Job:
    """What a call is given: every rank's elements as a vector of float64, in the order of their indices."""

    inputs: tuple[Array, ...]
    block: int

    @cached_property
    def total(self) -> Array:
        return np.asarray(np.sum(self.inputs, axis=0))

    @cached_property
    def allowed(self) -> Array:
        """Of each element, how far it may be from the sum."""
        terms = np.sum([around(each, self.block) for each in self.inputs], axis=0)
        return np.asarray(HALF_STEP * (terms + SUM_GROWS * around(self.total, self.block)) + FLOAT32 * terms)

    def wrong(self, got: Array) -> Array:
        """The places of elements that are too far off, the worst first; those that are no numbers before all."""
        off = np.abs(got - self.total)
        places = np.flatnonzero(~(off <= self.allowed))
        with np.errstate(divide="ignore", invalid="ignore"):
            worst = np.where(np.isfinite(off), off / self.allowed, np.inf)[places]
        return np.asarray(places[np.argsort(-worst, kind="stable")])

    def error(self, got: Array) -> float:
        """The root mean square of what a result is off by."""
        return float(np.sqrt(np.mean((got - self.total) ** 2)))
