"""Is an all-reduce's result right, and if not, what does the wrong one look like? Shared by the collectives."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from grader import says
from grader.exercise import Draw
from grader.exercises.common import held
from grader.exercises.common.causes import Cause, Parts, cause, fact, holding, notes
from grader.exercises.common.held import Held
from grader.lost import Lost
from grader.ranks.program import CallResult, Strided
from grader.verdict import Diagnosis
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

Array = np.ndarray[Any, Any]

# Floating-point values are multiples of 2**-8 below 2**38: every sum of at most 64 of them is exact in float64, in any
# order, and float32 cannot hold them.
_VALUES = 2**46
TOLD_WHOLE = 12  # elements up to which a wrong tensor and the right one are told whole


Explain = Callable[[Held, Parts, int, int], Cause | None]  # on a rank, of an element
Known = Callable[[int], str | None]  # of a rank's values


def values(draw: Draw, label: str, rank: int, ranks: int, count: int, dtype: str) -> Array:
    """`count` fresh values of `dtype` for one of `ranks` ranks; sums over ranks are exact in every order."""
    generator = draw.generator(f"{label}/{rank}")
    if dtype == "int64":
        return whole(generator, signs(draw, label, count), ranks)
    return (generator.integers(-_VALUES, _VALUES, count) / held.SCALE).astype(dtype)


def whole(own: np.random.Generator, signs: Array, ranks: int) -> Array:
    """As many integers of one rank as there are `signs`, drawn from its `own` generator, of which the sum over `ranks`
    needs 63 bits: no floating-point number holds it, nor int32. Signs are those of all ranks, so that nothing cancels."""
    each = 2**63 // ranks
    return np.asarray(own.integers(each // 2, each, len(signs)) * signs)


@functools.lru_cache(maxsize=1)  # asked for by one rank after another
def signs(draw: Draw, label: str, count: int) -> Array:
    """1 or -1 for each of `count` elements."""
    return np.asarray(draw.generator(label).choice((-1, 1), count))


def contiguous(draw: Draw, group: str, ranks: int, shape: tuple[int, ...], dtype: str) -> Case:
    """A case with one contiguous tensor of `shape` on each rank."""
    label = f"{says.counted(ranks, 'rank')}, {' x '.join(map(str, shape))} {dtype}"
    count = math.prod(shape)
    tensors = tuple(Strided.of(values(draw, label, r, ranks, count, dtype).reshape(shape)) for r in range(ranks))
    return Case(group, label, tuple((tensor,) for tensor in tensors))


def every_third(draw: Draw, group: str, ranks: int, length: int, dtype: str) -> Case:
    """A case with x[::3] of a longer vector on each rank."""
    label = f"{says.counted(ranks, 'rank')}, x[::3] of {3 * length} {dtype}"
    storage = [values(draw, label, r, ranks, 3 * length, dtype) for r in range(ranks)]
    return Case(group, label, tuple((Strided(flat, (length,), (3,)),) for flat in storage))


def inside(draw: Draw, group: str, ranks: int, length: int, dtype: str) -> Case:
    """A case with x[2:-1] of a longer vector on each rank: contiguous, and neither end is the storage's."""
    label = f"{says.counted(ranks, 'rank')}, x[2:-1] of {length + 3} {dtype}"
    storage = [values(draw, label, r, ranks, length + 3, dtype) for r in range(ranks)]
    return Case(group, label, tuple((Strided(flat, (length,), (1,), 2),) for flat in storage))


def columns(draw: Draw, group: str, ranks: int, shape: tuple[int, int], dtype: str) -> Case:
    """A case with the first columns of a wider matrix on each rank: the last stride is 1, and there are gaps."""
    (rows, wide), whole_row = shape, shape[1] + 2
    label = f"{says.counted(ranks, 'rank')}, x[:, :{wide}] of {rows} x {whole_row} {dtype}"
    storage = [values(draw, label, r, ranks, rows * whole_row, dtype) for r in range(ranks)]
    return Case(group, label, tuple((Strided(flat, shape, (whole_row, 1)),) for flat in storage))


def transposed(draw: Draw, group: str, ranks: int, shape: tuple[int, int], dtype: str) -> Case:
    """A case with the transpose of a matrix on each rank: shape (columns, rows), strides (1, columns)."""
    rows, columns = shape
    label = f"{says.counted(ranks, 'rank')}, transpose of {rows} x {columns} {dtype}"
    storage = [values(draw, label, r, ranks, rows * columns, dtype) for r in range(ranks)]
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


def seen(bench: RankBench, case: Case, result: CallResult) -> Callable[[], Held | None]:
    """What a wrong `result` is made of, found when it is asked for. Of a race nothing is: it may end in another way."""
    return lambda: None if result.diagnoses else held.look(bench, case, result)


def too_early(bench: RankBench, case: Case, explain: Explain = cause) -> Explain:
    """What says why a sum is wrong: a buffer that was used before its request was waited for, else what `explain` finds.
    Values that came too late are no more to be seen in what messages hold."""

    def told(held: Held, parts: Parts, rank: int, element: int) -> Cause | None:
        race = bench.raced(case)
        return Cause(race.message.rstrip("."), race.line or 0) if race else explain(held, parts, rank, element)

    return told


def judge(
    case: Case,
    result: CallResult,
    file: str,
    look: Callable[[], Held | None] = lambda: None,
    explain: Explain = cause,
    known: Known = lambda rank: None,
) -> Diagnosis | None:
    """None if every rank's tensor holds the sum over ranks, bit for bit; else what is wrong, on the first such rank.

    `known` is asked first what the values on a rank are; then `look` finds what they are made of, and `explain` why.
    """
    inputs = [tensor.view() for tensor in case.tensors]
    expected = np.sum(np.stack(inputs), axis=0, dtype=inputs[0].dtype)
    if found := malformed(case, result, file):
        return found
    outputs = [arguments[0].view() for arguments in result.arguments]
    for rank, output in enumerate(outputs):
        if not np.array_equal(output, expected):
            sure = known(rank) or _elsewhere(case, result, rank) or _sure(case, rank, inputs, expected, outputs)
            made = None if sure else look()
            if made:
                result.trace.notes.update(notes(made, Parts.of(made, made.ranks)))
            why = Cause(sure) if sure else _why(rank, inputs, expected, output, made, explain)
            return _explained(case, rank, inputs, expected, output, why, made, file)
        if found := spilled(case, result, rank, file):
            return found
    return None


def malformed(case: Case, result: CallResult, file: str) -> Diagnosis | None:
    """What is wrong with the first tensor that has another shape or type after a call in place."""
    for rank, before in enumerate(case.tensors):
        tensor, name = result.arguments[rank][0], before.storage.dtype.name
        if not isinstance(tensor, Strided) or tensor.shape != before.shape:
            shape = tuple(tensor.shape) if isinstance(tensor, Strided) else type(tensor).__name__
            what = f"the tensor now has the shape {shape} instead of {before.shape}. Do not change its shape"
            return _wrong(case, rank, what, str(before.shape), str(shape), file)
        if tensor.storage.dtype.name != name:
            now = tensor.storage.dtype.name
            what = f"the tensor now has the dtype {now} instead of {name}. Do not change its dtype"
            return _wrong(case, rank, what, name, now, file)
    return None


def _elsewhere(case: Case, result: CallResult, rank: int) -> str | None:
    """What is wrong where the sum is, and the call wrote into memory beside the tensor."""
    outside = _outside(case.tensors[rank], result.arguments[rank][0])
    if outside is None:
        return None
    return (
        f"the call changed element {outside} of the storage, which is not part of the tensor. Read and write only the "
        "tensor's own elements, as tensor.reshape(-1) and tensor.copy_() do"
    )


def spilled(case: Case, result: CallResult, rank: int, file: str) -> Diagnosis | None:
    """What a rank changed in its tensor's storage that is not the tensor's, where the sum itself is right."""
    outside = _outside(case.tensors[rank], result.arguments[rank][0])
    if outside is None:
        return None
    what = f"the sum is right, but element {outside} of the storage changed, which is not part of the tensor"
    return _wrong(case, rank, what, "only the tensor's own elements change", f"storage[{outside}] changed", file)


def _outside(before: Strided, after: Strided) -> int | None:
    """The first element of the storage that is not the tensor's and was changed."""
    if before.storage.shape != after.storage.shape:
        return None
    if before.numel == before.storage.size and before.view().flags.c_contiguous:
        return None  # all of the storage is the tensor's
    own = Strided(np.zeros(before.storage.shape, bool), before.shape, before.stride, before.offset)
    if own.numel:
        own.view()[...] = True
    changed = np.flatnonzero((before.storage != after.storage) & ~own.storage)
    return int(changed[0]) if len(changed) else None


def _wrong(case: Case, rank: int, what: str, expected: str, got: str, file: str, line: int = 0) -> Diagnosis:
    message = f"With {case.label}: on rank {rank}, {what}."
    return Diagnosis("wrong_result", message, rank, file, line or None, expected, got)


def _explained(
    case: Case, rank: int, inputs: list[Array], expected: Array, output: Array, why: Cause, found: Held | None,
    file: str,
) -> Diagnosis:  # fmt: skip
    wrong = np.argwhere(np.atleast_1d(output != expected))
    where = tuple(int(i) for i in wrong[0])
    index = where if output.ndim else ()
    share = "every element is" if len(wrong) == output.size else f"{len(wrong)} of {output.size} elements are"
    share = "its only element is" if output.size == 1 else share
    place = _place(expected, output)
    texts = f"{place} = {expected[index]!s}", f"{place} = {output[index]!s}"
    if output.ndim and output.size <= TOLD_WHOLE:
        texts = side_by_side(expected, output, inputs, found.after[rank] if found else None)
    return _wrong(case, rank, f"{share} wrong: {why.text}", *texts, file, why.line)


def _place(expected: Array, output: Array) -> str:
    """The first element that is wrong: "element 3", "element [1, 2]"."""
    where = [int(i) for i in np.argwhere(np.atleast_1d(output != expected))[0]]
    return f"element {where if len(where) > 1 else where[0]}"


def side_by_side(
    expected: Array, output: Array, inputs: Sequence[Array], counts: Array | None = None
) -> tuple[str, str]:
    """All values of two tensors as nested lists: "[1.5, 4.0]" and "[1.5, 3.0 (rank 1 alone)]".

    In the second, every element that differs has in parentheses whose values it is the sum of, or else "wrong";
    `counts`, where they are known, say so of each element: [element, rank, position].
    """

    def told(index: tuple[int, ...]) -> str:
        if output[index] == expected[index]:
            return f"{output[index]!s}"
        if counts is not None:
            flat = int(np.ravel_multi_index(index, output.shape))
            return f"{output[index]!s} ({holding(counts[flat], flat)})"
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


# ---- why


def _sure(case: Case, rank: int, inputs: list[Array], expected: Array, outputs: list[Array]) -> str | None:
    """What the wrong values are, where they themselves show it."""
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
            f"from {_place(expected, output)} on, the tensor still has its own values. {output.size} is not divisible by "
            f"{ranks}, so the last elements must be in a chunk, too"
        )
    if all(np.array_equal(out, own) for out, own in zip(outputs, inputs, strict=True)):
        short = ", also where it has fewer elements than there are ranks" if output.size < ranks else ""
        if _contiguous(case):
            return f"the tensors are unchanged. Write the sum into the tensor that was passed in{short}"
        return (
            "the memory of the tensors that were passed in is unchanged. Write the sum into that "
            f"memory{short}. If you work on a contiguous copy, copy the sum back with tensor.copy_(copy). An assignment to "
            "tensor or tensor.data does not write into that memory"
        )
    if ranks > 1 and _apart(output * ranks, expected)[bad].max() < ranks:
        return f"they hold the sum divided by {ranks}, an average. Do not divide the sum"
    return _rounded(inputs, expected, output)


def _apart(one: Array, other: Array) -> Array:
    """How far apart values are; of integers exactly, whatever they come to."""
    return np.where(one == other, 0.0, np.inf) if one.dtype.kind == "f" else np.abs((one - other).astype(float))


def _rounded(inputs: list[Array], expected: Array, output: Array) -> str | None:
    """The wrong values as right ones that went through a type which cannot hold them."""
    bad, dtype = output != expected, output.dtype
    terms = np.sum(np.abs(np.stack(inputs).astype(float)), axis=0)
    off = np.abs((output - expected).astype(float))
    worst = float((off / np.maximum(terms, 1e-300))[bad].max())
    index = np.unravel_index(int(np.flatnonzero(bad.reshape(-1))[0]), bad.shape)
    differs = f"{output[index]!s} and not {expected[index]!s}"
    place = _place(expected, output)
    if dtype.kind == "f" and worst <= 1e-12:
        return f"{place} has a rounding error: it is {differs}. Every sum of these values is exact, so only add, and never divide"
    for name, most, bits in (("float64", 1e-12, 53), ("float32", 1e-6, 24)):
        # Rounded integers are off by anything up to half a unit in the last place, and not all of them by a few.
        if worst <= most and (dtype.kind == "f" or off.max() * 2**bits >= float(terms.max()) / 16):
            kept = f"Values went through {name}, which keeps {bits} bits. Keep {dtype} in every buffer"
            return f"{place} is right but for what {name} cannot hold: it is {differs}. {kept}"
    if dtype.kind == "i" and not ((output - expected)[bad] % 2**32).any():
        return f"{place} is right in its lowest 32 bits only: {differs}. Values went through int32: keep {dtype} everywhere"
    return None


def _why(rank: int, inputs: list[Array], expected: Array, output: Array, found: Held | None, explain: Explain) -> Cause:
    """What the first wrong value is made of, and why, as far as it is known."""
    place = _place(expected, output)
    flat = int(np.flatnonzero((output != expected).reshape(-1))[0])
    if found is None:
        index = np.unravel_index(flat, output.shape) if output.ndim else ()
        return Cause(_pattern([array[index] for array in inputs], expected[index], output[index], place))
    told = f"{place} {fact(found.after[rank, flat], flat)}"
    why = explain(found, Parts.of(found, found.ranks), rank, flat)
    return Cause(f"{told}. {why.text}", why.line) if why else Cause(told)


def _pattern(terms: list[Any], right: Any, got: Any, place: str) -> str:
    """What one wrong value is, by the values that ranks gave for its place."""
    found = _as_sum(terms, got)
    if found is None:
        return f"{place} is {got!s} and not {right!s}"
    counts = np.array([[found.count(rank)] for rank in range(len(terms))])
    return f"{place} {fact(counts, 0)}"


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


def _as_sum(terms: Sequence[Any], total: Any) -> list[int] | None:
    """Ranks whose values sum to `total`: a subset, or a subset with one counted twice; None if there is none."""
    if len(terms) > 10:
        return None
    given = np.array(terms)  # sums of arrays go round where integers are too large, as the learner's do
    subsets = [list(s) for size in range(1, len(terms) + 1) for s in combinations(range(len(terms)), size)]
    found = next((subset for subset in subsets if given[subset].sum() == total), None)
    if found:
        return found
    twice = (sorted([*subset, again]) for subset in subsets for again in subset)
    return next((ranks for ranks in twice if given[ranks].sum() == total), None)
