"""Judges of ring_attention's numbers: the shards, the output, the gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader import says, tally
from grader.exercises.common import checks, plain
from grader.exercises.common.checks import field
from grader.exercises.ring_attention import problems
from grader.exercises.ring_attention.problems import NAMES, Array, Problem, Size
from grader.lost import Lost
from grader.ranks.program import CallResult, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

NEAR, FAR = 1e-5, 1e-3  # of the greatest magnitude: for logits up to 30, and for those of about 200
SPREAD = 1.1  # of the mean of the ranks' work
WRONG = "the values are wrong"  # why a check about something else does not judge
Call = tuple[Case, CallResult]


@dataclass(frozen=True, eq=False)
class Attention:
    """What a case is about: its problems, which of them have a mask, and what the output may differ by."""

    given: tuple[Problem, ...]
    masks: tuple[bool, ...]
    tolerance: float = NEAR

    @property
    def causal(self) -> bool:
        """Whether there is a mask in any call."""
        return any(self.masks)

    @property
    def size(self) -> Size:
        return self.given[0].size


@dataclass(frozen=True, eq=False)
class Cut:
    """A tensor that is split into so many shards, and shards that are merged."""

    whole: Array
    shards: tuple[Array, ...]

    @property
    def count(self) -> int:
        return len(self.shards)


# ---- split and merge


def split(bench: RankBench) -> Outcome:
    """split() cuts the sequence into N equal shards, merge() undoes it, and neither communicates."""
    for case, result in bench.calls("split"):
        for rank in range(case.ranks):
            if wrong := _wrong_cut(case.expected, result, rank):
                message = f"With {case.label}: {wrong}"
                raise bench.lost(case, "wrong_result", message, rank)
            if operations := result.trace.operations(rank):
                op = operations[0]
                message = (
                    f"With {case.label}: rank {rank} communicates in split() or merge() ({op.name} at line {op.line}). "
                    "Both only rearrange a tensor. One process calls them alone before the ranks start."
                )
                raise bench.lost(case, "too_many_messages", message, rank, "no messages", f"{len(operations)}")
    return bench.picture("split")


def _wrong_cut(cut: Cut, result: CallResult, rank: int) -> str:
    """What is wrong with one tensor's shards, as a sentence; empty if nothing is."""
    shards, count, whole = field(result, rank, "shards"), cut.count, cut.whole
    shape = (*whole.shape[:2], whole.shape[2] // count, whole.shape[3])
    if not isinstance(shards, list) or len(shards) != count:
        got = f"a list of {len(shards)} tensors" if isinstance(shards, list) else f"a {field(result, rank, 'type')}"
        return f"split(x, {count}) returned {got}. Return a list of {count} tensors."
    for number, shard in enumerate(shards):
        if shard.shape != shape or shard.storage.dtype != np.float32:
            got = plain.in_words(shard)
            return (
                f"shard {number} of {count} is {got}. Cut dimension 2 into equal parts, each of shape {shape}, float32."
            )
    if field(result, rank, "changed"):
        return f"split(x, {count}) changed x. Leave x as it is."
    order = _order(field(result, rank, "places"), count, whole.shape[2])
    together = np.concatenate([shard.view() for shard in shards], axis=2)
    if order is None or not np.array_equal(together, whole[:, :, order.reshape(-1)]):
        return (
            f"the shards of split(x, {count}) do not hold each position of x exactly once, in an order that depends on "
            "the shape only. Move whole positions: x[:, :, i] stays together for all batches and heads."
        )
    back = np.empty_like(whole)
    back[:, :, order.reshape(-1)] = np.concatenate(cut.shards, axis=2)
    for what, merged, right in (
        (f"merge(split(x, {count}))", field(result, rank, "merged"), whole),
        (f"merge() of {count} other shards in the same order", field(result, rank, "ours"), back),
    ):
        if not isinstance(merged, Strided) or merged.shape != whole.shape:
            return f"{what} is {plain.in_words(merged)}. It must be a tensor of shape {whole.shape}."
        if not np.array_equal(merged.view(), right):
            moved = int((merged.view() != right).any((0, 1, 3)).sum())
            return (
                f"{what} has {moved} of {whole.shape[2]} positions wrong. Undo the order of split() bit for bit, from "
                "the shards alone."
            )
    double = field(result, rank, "double")
    if (
        not isinstance(double, Strided)
        or double.storage.dtype != np.float64
        or not _same(double, whole / np.float64(3))
    ):
        trouble = field(result, rank, "trouble")
        came = (
            f"raised {says.shown(trouble, 200).rstrip(':. ')}"
            if isinstance(trouble, str)
            else f"is {plain.in_words(double)}, which does not hold the values of x"
        )
        return (
            f"merge(split(x, {count})) of a float64 tensor {came}. Undo split() bit for bit, whatever the data type of the "
            "shards is."
        )
    return ""


def _same(got: Strided, right: Array) -> bool:
    return got.shape == right.shape and np.array_equal(got.view(), right)


def _order(told: Any, count: int, sequence: int) -> Array | None:
    """The positions of each shard; None if they are not each position once."""
    if not isinstance(told, Strided) or told.shape != (count, sequence // count):
        return None
    found = told.view()
    if not np.array_equal(np.sort(found.reshape(-1)), np.arange(sequence)):
        return None
    return np.asarray(found.astype(np.int64))


def balance(bench: RankBench) -> Outcome:
    """Under the mask, every rank has about the same number of pairs of a query and a key."""
    for case, result in bench.calls("split"):
        cut: Cut = case.expected
        sequence = cut.whole.shape[2]
        if sequence < 16 * cut.count:
            continue
        order = _order(field(result, 0, "places"), cut.count, sequence)
        if order is None:
            found = bench.lost(case, "wrong_result", f"With {case.label}: {_wrong_cut(cut, result, 0)}", 0)
            raise Lost(checks.not_judged(found.diagnosis, "the shards are wrong"), found.picture)
        work = (order + 1).sum(1)
        worst, mean = int(work.argmax()), float(work.mean())
        tally.note("pairs of a query and a key on a rank", float(work[worst]), SPREAD * mean, "pairs", where=case.label)
        if work[worst] <= SPREAD * mean:
            continue
        ends = np.flatnonzero(np.diff(np.sort(order[worst])) > 1) + 1
        runs = [f"{part[0]} to {part[-1]}" for part in np.split(np.sort(order[worst]), ends)]
        message = (
            f"With {case.label}: under the causal mask, the queries of shard {worst} see {work[worst]:,} keys, "
            f"{work[worst] / mean:.2f} times the mean of {mean:,.0f}. The shard has positions {says.some(runs, 4)}. A late "
            "query sees more keys than an early one, so give every rank early and late positions alike."
        )
        limit = f"at most {SPREAD:g} times the mean"
        raise bench.lost(case, "too_slow", message, worst, limit, f"{work[worst] / mean:.2f} times the mean")
    return bench.picture("split")


# ---- attention


def values(bench: RankBench, group: str) -> Iterator[Call]:
    """The calls of `group`, each with full attention's output and gradients. Raises Lost at the first without."""
    for case, result in bench.calls(group):
        checks.allowed(bench, case, result)
        about: Attention = case.expected
        places = _places(bench, case, result) if about.causal else None
        for number, (problem, masked) in enumerate(zip(about.given, about.masks, strict=True)):
            right = problem.attended(problem.seen(places if masked else None))
            for what in range(len(right)):
                got = [_numbers(bench, case, result, rank, what, number) for rank in range(case.ranks)]
                _compare(bench, case, result, number, places, right, got, what)
        yield case, result


def _unchanged(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost where q, k or v of a caller, who may use them once more, have other values after the passes."""
    for rank in range(case.ranks):
        told = field(result, rank, "changed")
        for changed in told if isinstance(told, list) else []:
            names = [name for name, each in zip("qkv", changed, strict=False) if each]
            if not names:
                continue
            message = (
                f"With {case.label}: on rank {rank}, ring_attention changed {says.listed(names)} in place. The results of "
                "this call are right, but a second call with the same tensors would be wrong. Leave them as they are. "
                "contiguous() makes no copy of a tensor that is contiguous already, so use clone() before in-place operations."
            )
            raise bench.lost(case, "wrong_result", message, rank, "q, k and v as they were", "other values")


def _places(bench: RankBench, case: Case, result: CallResult) -> Array:
    """Where the rows of the ranks' shards stand in the sequence, by the learner's split()."""
    size = case.expected.size
    orders = [_order(field(result, rank, "places"), size.ranks, size.sequence) for rank in range(case.ranks)]
    for rank, order in enumerate(orders):
        if order is None or orders[0] is None or not np.array_equal(order, orders[0]):
            told = "does not hold each position once" if order is None else "differs from rank 0's"
            message = (
                f"With {case.label}: on rank {rank}, the order in which split() cuts {size.sequence} positions into "
                f"{size.ranks} shards {told}. Without it nobody knows which key a query may see."
            )
            found = bench.lost(case, "wrong_result", message, rank)
            raise Lost(checks.not_judged(found.diagnosis, "split() is wrong"), found.picture)
    assert orders[0] is not None
    return orders[0]


def _numbers(bench: RankBench, case: Case, result: CallResult, rank: int, what: int, number: int) -> Array:
    """A rank's output (0) or one of its gradients (1 to 3). Raises Lost where there is none."""
    shape = case.expected.size.shard
    if what and not field(result, rank, "differentiable"):
        message = (
            f"With {case.label}: rank {rank}'s output does not require a gradient, although q, k and v do. Messages are "
            "no part of autograd's graph: write a torch.autograd.Function with a backward pass of its own."
        )
        raise bench.lost(case, "wrong_result", message, rank)
    rows = field(result, rank, "grads" if what else "outputs")
    value = rows[number] if isinstance(rows, list) and len(rows) > number else None
    if what and isinstance(value, list):
        value = value[what - 1]
    if not isinstance(value, Strided) or value.shape != shape or value.storage.dtype.kind != "f":
        kind = field(result, rank, "type") if not what and value is None else None
        got = f"a value of type {kind}" if kind and kind != "NoneType" else plain.in_words(value)
        message = f"With {case.label}: rank {rank}'s {NAMES[what]} is {got}. It must be a tensor of shape {shape}."
        raise bench.lost(case, "wrong_result", message, rank, f"shape {shape}", got)
    return np.asarray(value.view().astype(np.float64))


def _compare(
    bench: RankBench, case: Case, result: CallResult, number: int, places: Array | None, right: list[Array],
    got: list[Array], what: int,
) -> None:  # fmt: skip
    """Raise Lost at the rank that is furthest off in a call, if one is too far."""
    about: Attention = case.expected
    problem, which = about.given[number], f" of call {number + 1}" if len(about.given) > 1 else ""
    greatest = float(np.abs(right[what]).max())
    off = [
        float(np.nan_to_num(np.abs(mine - own), nan=np.inf).max()) for mine, own in zip(got, right[what], strict=True)
    ]
    if max(off) <= about.tolerance * greatest:
        return
    checks.undisturbed(bench, case, result)
    rank = int(np.argmax(off))
    place = np.unravel_index(
        int(np.nan_to_num(np.abs(got[rank] - right[what][rank]), nan=np.inf).argmax()), got[rank].shape
    )
    one, other = plain.apart(float(got[rank][place]), float(right[what][rank][place]))
    position = "" if places is None else f", position {places[rank][place[2]]} of the sequence"
    why = _mask_of_another(about, number, places, right, np.stack(got), what)
    why = why or _why(problem, places if about.masks[number] else None, right, np.stack(got), what, rank, about)
    message = (
        f"With {case.label}: rank {rank}'s {NAMES[what]}{which} is {one} at {tuple(map(int, place))}{position}. Full "
        f"attention gives {other}. {why}"
    ).rstrip()
    raise bench.lost(case, "wrong_result", message, rank, other, one)


def _near(wrong: Array, mine: Array) -> bool:
    return bool(np.allclose(mine, wrong, rtol=1e-3, atol=1e-4 * float(np.abs(wrong).max())))


def _mask_of_another(
    about: Attention, number: int, places: Array | None, right: list[Array], got: Array, what: int
) -> str:  # fmt: skip
    """That a call took the mask of another call, where the numbers show it; empty otherwise."""
    mine, problem = about.masks[number], about.given[number]
    other = next((place for place, masked in enumerate(about.masks) if masked != mine), None)
    if other is None or _near(right[what], got):
        return ""
    seen, wrong = (problem.seen(places if masked else None) for masked in (mine, not mine))
    made = [problem.attended(wrong)[what], *([problem.remasked(seen, wrong)[what]] if what else [])]
    if not any(_near(each, got) for each in made):
        return ""
    told = f"Call {number + 1} has causal={mine}, and call {other + 1} has causal={not mine}. "
    if what == 0:
        return f"{told}The output of call {number + 1} follows causal={not mine}. Use the `causal` that each call is given."
    return (
        f"{told}Both ran before the first backward pass. The output of call {number + 1} is right, but its backward pass "
        f"follows causal={not mine}. Keep `causal` for each call, for example as ctx.causal."
    )


def _why(
    problem: Problem, places: Array | None, right: list[Array], got: Array, what: int, rank: int, about: Attention
) -> str:
    """What the wrong numbers hold, in a sentence."""

    def near(wrong: Array, mine: Array = got) -> bool:
        return _near(wrong, mine)

    name, own, n = NAMES[what], right[what][rank], problem.size.ranks
    if not np.isfinite(got).all():
        return _not_finite(problem, about, places, right[what], got, what)
    for made, sentence in problems.mistakes(problem, places):
        wrong = made()
        if what < len(wrong) and near(wrong[what]) and not near(right[what]):
            return sentence
    for other in range(n):
        if other != rank and near(right[what][other], got[rank]):
            home = "Gradients of K and V must travel home to the rank that the keys belong to." if what > 1 else ""
            return f"This is the {name} of rank {other}'s shard. {home}".rstrip()
    if what and (told := _left_out(problem, places, own, got[rank], what, rank)):
        return told
    if what and near(own / problem.scale, got[rank]):
        return "It lacks the factor 1/sqrt(dim), which the logits have."
    if own.any() and near(own * (factor := float((got[rank] * own).sum() / (own * own).sum())), got[rank]) and factor:
        return f"All of it is {factor:.4g} times what it should be."
    if near(own, got[rank]) and what == 0:
        return f"It is nearly right, and may differ by {about.tolerance:g} of the greatest magnitude. Stay in float32."
    if all(
        np.allclose(mine, each, 0.03, 0.03 * float(np.abs(each).max()))
        for mine, each in zip(got, right[what], strict=True)
    ):
        return "Everything is nearly right, but not to float32's precision. Compute and send in float32."
    if what == 0 and n == 1:
        return "One rank has all keys. Check the scale, the mask and the softmax."
    if what == 0:
        return "Check that each query meets the keys of every rank once, with their own values and the right mask."
    right_so_far = f"The output {'is' if what == 1 else 'and the gradient of q are'} right."
    starts = ", which starts from a different gradient on every rank" if n > 1 else ""
    return f"{right_so_far} Check the backward pass{starts}."


def _not_finite(
    problem: Problem, about: Attention, places: Array | None, right: Array, got: Array, what: int
) -> str:  # fmt: skip
    """Which positions have numbers that are not finite, and what the others show of the cause."""
    rows = np.asarray((~np.isfinite(got)).any((1, 2, 4)))

    def as_in(wrong: Array) -> bool:
        there = np.isfinite(got)
        return bool(np.allclose(got[there], wrong[there], 0.01, 0.01 * float(np.abs(right).max())))

    told = f"In all, {says.counted(int(rows.sum()), 'position')} of the sequence {{}} not finite. "
    told = told.format("is" if rows.sum() == 1 else "are")
    if places is not None and rows[places == 0].any() and not as_in(right) and as_in(problem.strictly(places)[what]):
        return told + "Position 0 must see its own key: the mask is query position >= key position."
    meets_all = places is not None and what < 2 and rows[places >= places.min(1).max()].any()
    if places is not None and about.size.ranks > 1 and not meets_all:
        return told + (
            "Under the mask, a query may see no key of a shard at all. Then its maximum there is -inf and its sum of exp() "
            "is 0, and both -inf - (-inf) and 0 / 0 are NaN. Skip such shards, or treat such rows apart."
        )
    if about.tolerance == FAR:
        return told + (
            "Logits are about 200 in size here. Subtract the greatest logit that a row has met so far before you "
            "call exp(), and begin with -inf, not with a fixed number."
        )
    if what:
        return told + "Check the backward pass."
    masked = "" if places is None else ", and whether 0 is multiplied with inf: that is NaN"
    return told + f"Check where exp() or a division can overflow{masked}."


def _left_out(problem: Problem, places: Array | None, own: Array, got: Array, what: int, rank: int) -> str:
    """Whose part of a rank's gradient is missing: a run of neighbors in the ring; empty if that is not what is wrong."""
    n, parts = problem.size.ranks, problem.parts(problem.seen(places), what, rank)
    best: tuple[float, list[int]] = (np.inf, [])
    for count in range(1, n):
        for start in range(n):
            whose = sorted((start + step) % n for step in range(count))
            off = float(np.abs(got - np.sum([parts[each] for each in whose], 0)).max())
            best = min(best, (off, whose), key=lambda each: each[0])
    if best[0] > 1e-3 * float(np.abs(own).max()):
        return ""
    missing = says.names([other for other in range(n) if other not in best[1]])
    if what == 1:
        return f"It lacks the part of the keys of {missing}. Meet the K and V of all N ranks in the backward pass, too."
    return (
        f"It holds the part of the queries of {says.names(best[1])} only, and lacks that of {missing}. Each rank must add "
        "its part to the gradient before the gradient reaches the owner of the keys."
    )


def finished(bench: RankBench) -> Iterator[Call]:
    """The calls of "full" and "causal" that came out right; raises Lost if neither group did."""
    yield from checks.right_ones(values, bench, ("full", "causal"), WRONG)


def right(group: str) -> Callable[[RankBench], Outcome]:
    """All calls of `group` are full attention; those of one group must leave what they are given alone, too."""
    return checks.right(values, group, *([_unchanged] if group == "full" else []))


waited = checks.waited(lambda bench, _: finished(bench), "full")
