"""Is an all-reduce's result right, and if not, what does the wrong one look like? Shared by the collectives."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from grader import says
from grader.exercise import Draw
from grader.lost import Lost
from grader.ranks.program import CallResult, Strided
from grader.verdict import Diagnosis
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

Array = np.ndarray[Any, Any]

# Values are multiples of 2**-8 below 2**38: every sum of at most 64 of them is exact in float64, in any order, and
# neither float32 nor a shortcut through int32 can hold them.
_VALUES = 2**46
_SCALE = 2.0**-8
TOLD_WHOLE = 12  # elements up to which a wrong tensor and the right one are told whole


def values(draw: Draw, label: str, rank: int, count: int, dtype: str) -> Array:
    """`count` fresh values of `dtype` for one rank; sums over ranks are exact in every order."""
    whole = draw.generator(f"{label}/{rank}").integers(-_VALUES, _VALUES, count)
    return whole.astype(dtype) * _SCALE if dtype.startswith("float") else whole.astype(dtype)


def contiguous(draw: Draw, group: str, ranks: int, shape: tuple[int, ...], dtype: str) -> Case:
    """A case with one contiguous tensor of `shape` on each rank."""
    label = f"{says.counted(ranks, 'rank')}, {' x '.join(map(str, shape))} {dtype}"
    count = int(np.prod(shape, dtype=np.int64))
    tensors = tuple(Strided.of(values(draw, label, r, count, dtype).reshape(shape)) for r in range(ranks))
    return Case(group, label, tuple((tensor,) for tensor in tensors))


def every_third(draw: Draw, group: str, ranks: int, length: int, dtype: str) -> Case:
    """A case with x[::3] of a longer vector on each rank."""
    label = f"{says.counted(ranks, 'rank')}, x[::3] of {3 * length} {dtype}"
    storage = [values(draw, label, r, 3 * length, dtype) for r in range(ranks)]
    return Case(group, label, tuple((Strided(flat, (length,), (3,)),) for flat in storage))


def transposed(draw: Draw, group: str, ranks: int, shape: tuple[int, int], dtype: str) -> Case:
    """A case with the transpose of a matrix on each rank: shape (columns, rows), strides (1, columns)."""
    rows, columns = shape
    label = f"{says.counted(ranks, 'rank')}, transpose of {rows} x {columns} {dtype}"
    storage = [values(draw, label, r, rows * columns, dtype) for r in range(ranks)]
    return Case(group, label, tuple((Strided(flat, (columns, rows), (1, columns)),) for flat in storage))


def odd(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult]]:
    """The calls of odd shapes that came out right, whose messages are counted too: where they did not, it is the checks
    of lengths and layouts that say so."""
    with contextlib.suppress(Lost):
        for case, result in bench.calls(group):
            if not result.diagnoses and not judge(case, result, bench.program.file):
                yield case, result


def judge(case: Case, result: CallResult, file: str) -> Diagnosis | None:
    """None if every rank's tensor holds the sum over ranks, bit for bit; else what is wrong, on the first such rank."""
    inputs = [tensor.view() for tensor in case.tensors]
    expected = np.sum(np.stack(inputs), axis=0, dtype=inputs[0].dtype)
    outputs: list[Array] = []
    for rank, arguments in enumerate(result.arguments):
        tensor = arguments[0]
        if not isinstance(tensor, Strided) or tensor.shape != case.tensors[rank].shape:
            shape = tuple(tensor.shape) if isinstance(tensor, Strided) else type(tensor).__name__
            what = f"the tensor now has the shape {shape} instead of {expected.shape}. Do not change its shape"
            return _wrong(case, rank, what, str(expected.shape), str(shape), file)
        if tensor.storage.dtype != expected.dtype:
            name = tensor.storage.dtype.name
            what = f"the tensor now has the dtype {name} instead of {expected.dtype.name}. Do not change its dtype"
            return _wrong(case, rank, what, expected.dtype.name, name, file)
        outputs.append(tensor.view())
    for rank, output in enumerate(outputs):
        if not np.array_equal(output, expected):
            return _explain(case, rank, inputs, expected, outputs, file)
        outside = _outside(case.tensors[rank], result.arguments[rank][0])
        if outside is not None:
            what = f"the sum is right, but element {outside} of the storage changed, which is not part of the tensor"
            texts = "only the tensor's own elements change", f"storage[{outside}] changed"
            return _wrong(case, rank, what, *texts, file)
    return None


def _outside(before: Strided, after: Strided) -> int | None:
    """The first element of the storage that is not the tensor's and was changed."""
    if before.storage.shape != after.storage.shape:
        return None
    own = Strided(np.zeros(before.storage.shape, bool), before.shape, before.stride, before.offset)
    if own.numel:
        own.view()[...] = True
    changed = np.flatnonzero((before.storage != after.storage) & ~own.storage)
    return int(changed[0]) if len(changed) else None


def _wrong(case: Case, rank: int, what: str, expected: str, got: str, file: str) -> Diagnosis:
    return Diagnosis("wrong_result", f"With {case.label}: on rank {rank}, {what}.", rank, file, None, expected, got)


def _explain(case: Case, rank: int, inputs: list[Array], expected: Array, outputs: list[Array], file: str) -> Diagnosis:
    output = outputs[rank]
    wrong = np.argwhere(np.atleast_1d(output != expected))
    where = tuple(int(i) for i in wrong[0])
    index = where if output.ndim else ()
    share = "every element is" if len(wrong) == output.size else f"{len(wrong)} of {output.size} elements are"
    share = "its only element is" if output.size == 1 else share
    place = f"element {list(where) if len(where) > 1 else where[0]}"
    what = f"{share} wrong: {_pattern(case, rank, inputs, expected, outputs, index, place)}"
    texts = f"{place} = {expected[index]!s}", f"{place} = {output[index]!s}"
    if output.ndim and output.size <= TOLD_WHOLE:
        texts = side_by_side(expected, output, inputs)
    return _wrong(case, rank, what, *texts, file)


def side_by_side(expected: Array, output: Array, inputs: Sequence[Array]) -> tuple[str, str]:
    """All values of two tensors as nested lists: "[1.5, 4.0]" and "[1.5, 3.0 (rank 1 alone)]".

    In the second, every element that differs has in parentheses whose values it is the sum of, or else "wrong".
    """

    def told(index: tuple[int, ...]) -> str:
        if output[index] == expected[index]:
            return f"{output[index]!s}"
        return f"{output[index]!s} ({_whose([array[index] for array in inputs], output[index])})"

    return _nested(expected.shape, lambda index: f"{expected[index]!s}"), _nested(output.shape, told)


def _nested(shape: tuple[int, ...], told: Callable[[tuple[int, ...]], str], at: tuple[int, ...] = ()) -> str:
    if len(at) == len(shape):
        return told(at)
    return f"[{', '.join(_nested(shape, told, (*at, place)) for place in range(shape[len(at)]))}]"


def _whose(terms: list[Any], total: Any) -> str:
    """Whose values `total` is the sum of, in a few words."""
    found = _as_sum(terms, total)
    if found is None:
        return "wrong"
    twice = sorted({rank for rank in found if found.count(rank) > 1})
    if twice:
        return f"{says.names(twice)} twice"
    return f"{says.names(found)} alone" if len(found) == 1 else f"{says.names(found)} only"


def _pattern(
    case: Case,
    rank: int,
    inputs: list[Array],
    expected: Array,
    outputs: list[Array],
    index: tuple[int, ...],
    place: str,
) -> str:
    """What the wrong values are, in words: the likeliest mistake first."""
    ranks, output = len(inputs), outputs[rank]
    bad = output != expected
    first_bad = int(np.flatnonzero(bad.reshape(-1))[0])
    whole_chunks = output.size // ranks * ranks
    if 0 < whole_chunks <= first_bad and np.array_equal(output[bad], inputs[rank][bad]):
        return (
            f"from {place} on, the tensor still has its own values. {output.size} is not divisible by {ranks}, so the "
            "last elements must be in a chunk, too"
        )
    if all(np.array_equal(out, own) for out, own in zip(outputs, inputs, strict=True)):
        copied = ". If you work on a contiguous copy, copy the sum back" if not _contiguous(case) else ""
        return f"the tensors are unchanged. Write the sum into the tensor that was passed in{copied}"
    if np.array_equal(output[bad] * ranks, expected[bad]):
        return f"they hold the sum divided by {ranks}, an average. Do not divide the sum"
    right = [int(np.count_nonzero(out == expected)) for out in outputs]
    chunk = -(-output.size // ranks)
    instead = f"{place} is {output[index]!s} instead of {expected[index]!s}"
    off, whole = abs(float(output[index]) - float(expected[index])), abs(float(expected[index]))
    if output.dtype.kind in "fi" and 1e-12 * whole < off <= 1e-6 * whole:
        return f"{instead}, a difference as small as float32's rounding. Keep the tensor's dtype in every buffer"
    if output.dtype.kind == "f" and off <= 1e-12 * whole:
        return f"{instead}, a rounding error. Every sum of these values is exact, so only add, and never divide"
    terms = _as_sum([array[index] for array in inputs], output[index])
    if terms is None:
        return f"{instead}. Check which values were added to this element"
    once = sorted(set(terms))
    if ranks > 1 and len(once) == len(terms) and all(0 < count <= chunk for count in right):
        return "each rank has only one finished chunk, as after a reduce-scatter. An all-gather must follow"
    names = says.names(once)
    missing = [r for r in range(ranks) if r not in once]
    twice = sorted({r for r in terms if terms.count(r) > 1})
    if twice:
        left_out = f" and {says.names(missing)} not at all" if missing else ""
        return f"{place} counts {says.names(twice)} twice{left_out}. Add the value of each rank exactly once"
    if len(once) == 1:
        return f"{place} holds the value of {names} alone"
    return f"{place} is the sum of {names} only. The value of {says.names(missing)} is missing"


def _contiguous(case: Case) -> bool:
    return case.tensors[0].stride == Strided.of(np.empty(case.tensors[0].shape)).stride


def _as_sum(terms: list[Any], total: Any) -> list[int] | None:
    """Ranks whose values sum to `total`: a subset, or a subset with one counted twice; None if there is none."""
    ranks = range(len(terms))
    if len(terms) > 10:
        return None
    for size in range(1, len(terms) + 1):
        for subset in combinations(ranks, size):
            if sum(terms[r] for r in subset) == total:
                return list(subset)
    for size in range(1, len(terms) + 1):
        for subset in combinations(ranks, size):
            rest = total - sum(terms[r] for r in subset)
            for again in subset:
                if terms[again] == rest:
                    return sorted([*subset, again])
    return None
