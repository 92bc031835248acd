"""Is an all-reduce's result right, and if not, what does the wrong one look like? Shared by the collectives."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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


def transposed_on_rank_1(draw: Draw, group: str, ranks: int, shape: tuple[int, int], dtype: str) -> Case:
    """A case with the transpose of a matrix on rank 1, and a contiguous one of the same shape on all others."""
    case = transposed(draw, group, ranks, shape, dtype)
    label = f"{says.counted(ranks, 'rank')}, {' x '.join(map(str, shape))} {dtype}, on rank 1 a transpose"
    tensors = (t if rank == 1 else Strided.of(np.ascontiguousarray(t.view())) for rank, t in enumerate(case.tensors))
    return replace(case, label=label, arguments=tuple((tensor,) for tensor in tensors))


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
            what = f"its tensor now has the shape {shape} instead of {expected.shape}"
            return _wrong(case, rank, what, str(expected.shape), str(shape), file)
        if tensor.storage.dtype != expected.dtype:
            name = tensor.storage.dtype.name
            return _wrong(case, rank, f"its tensor is now {name}", expected.dtype.name, name, file)
        outputs.append(tensor.view())
    for rank, output in enumerate(outputs):
        if not np.array_equal(output, expected):
            return _explain(case, rank, inputs, expected, outputs, file)
        outside = _outside(case.tensors[rank], result.arguments[rank][0])
        if outside is not None:
            what = f"the sum is right, but memory beside the tensor (element {outside} of its storage) was overwritten"
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
    if _added_in_memory_order(case, outputs):
        return (
            "the ranks' tensors lie in memory in different orders, and elements were added in the order of memory. Send "
            "them in the order of their indices, as tensor.contiguous() has them"
        )
    bad = output != expected
    first_bad = int(np.flatnonzero(bad.reshape(-1))[0])
    whole_chunks = output.size // ranks * ranks
    if 0 < whole_chunks <= first_bad and np.array_equal(output[bad], inputs[rank][bad]):
        return (
            f"from {place} to the end it still has its own values. {output.size} does not divide by {ranks}: the last "
            "elements need a chunk too"
        )
    if all(np.array_equal(out, own) for out, own in zip(outputs, inputs, strict=True)):
        copied = ". Perhaps it is in a copy that was not copied back" if not _contiguous(case) else ""
        return f"the tensors are unchanged. The sum must be written into the tensor that was passed in{copied}"
    if np.array_equal(output[bad] * ranks, expected[bad]):
        return f"they hold the sum divided by {ranks}. An all-reduce with sum does not average"
    right = [int(np.count_nonzero(out == expected)) for out in outputs]
    chunk = -(-output.size // ranks)
    if ranks > 1 and all(0 < count <= chunk for count in right):
        return "each rank has only one finished chunk: a reduce-scatter, without the all-gather after it"
    off = abs(float(output[index]) - float(expected[index]))
    if output.dtype.kind == "f" and off <= 1e-6 * abs(float(expected[index])):
        lost = "what float32 cannot hold" if off > 1e-12 * abs(float(expected[index])) else "a rounding: did it divide?"
        return f"{place} is right but for {lost}: {output[index]!s} and not {expected[index]!s}"
    terms = _as_sum([array[index] for array in inputs], output[index])
    if terms is None:
        return f"{place} is {output[index]!s} and not {expected[index]!s}"
    once = sorted(set(terms))
    names = says.names(once)
    missing = [r for r in range(ranks) if r not in once]
    twice = sorted({r for r in terms if terms.count(r) > 1})
    if twice:
        return f"{place} counts {says.names(twice)} twice" + (
            f" and {says.names(missing)} not at all" if missing else ""
        )
    if len(once) == 1:
        return f"{place} holds the value of {names} alone"
    return f"{place} is the sum of {names} only: {says.names(missing)} never arrived there"


def _added_in_memory_order(case: Case, outputs: list[Array]) -> bool:
    """Whether ranks' layouts differ, and each has in every place of memory the sum of all ranks' there."""
    tensors = case.tensors
    if len({tensor.stride for tensor in tensors}) < 2 or len({len(tensor.storage) for tensor in tensors}) > 1:
        return False
    total = np.sum(np.stack([tensor.storage for tensor in tensors]), axis=0, dtype=tensors[0].storage.dtype)
    summed = (replace(tensor, storage=total).view() for tensor in tensors)
    return all(np.array_equal(out, right) for out, right in zip(outputs, summed, strict=True))


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
