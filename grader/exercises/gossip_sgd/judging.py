"""Judges of gossip_sgd's mix: what it made of the parameters, and who sent what to whom."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from grader import says, tally
from grader.exercises.common import checks, plain
from grader.exercises.gossip_sgd import mixing
from grader.exercises.gossip_sgd.mixing import Array, Gossip, Training
from grader.lost import Lost
from grader.ranks.program import CallResult, Strided
from grader.trace.events import SEND, Operation
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

NEAR = {"float64": 1e-6, "float32": 3e-5}  # of values of about 1; mistakes are a thousand times as large
MEAN = 1e-6
HEADER = 128  # bytes that a neighbour may be told beside the tensors, for each of them


def near(got: Array, right: Array, tolerance: float = 1e-4) -> bool:
    return bool(np.allclose(got, right, rtol=tolerance, atol=tolerance))


def first_wrong(got: Array, right: Array, given: Gossip | Training) -> tuple[int, int, int] | None:
    """The first row, the first rank in it and the first element of that which is not right, if there is one."""
    tolerance = NEAR[given.start.dtype.name]
    wrong = ~np.isclose(got, right, rtol=tolerance, atol=tolerance)
    if not wrong.any():
        return None
    row = int(np.argmax(wrong.any((1, 2))))
    rank = int(np.argmax(wrong[row].any(1)))
    return row, rank, int(np.argmax(wrong[row, rank]))


def place(shapes: tuple[tuple[int, ...], ...], element: int) -> str:
    """Which tensor an element of the row of all of them is in."""
    for number, shape in enumerate(shapes):
        if element < math.prod(shape):
            return f"tensor {number} of shape {shape}"
        element -= math.prod(shape)
    return "no tensor"


def rows_of(bench: RankBench, case: Case, result: CallResult, count: int) -> Array:
    """What the harness told of all ranks: [row, rank, element]. Raises Lost where that is not so many numbers."""
    given: Gossip | Training = case.expected
    wanted = given.start.shape[1]
    ranks = []
    for rank in range(case.ranks):
        rows = checks.field(result, rank, "rows")
        rows = rows if isinstance(rows, list) else []
        for number in range(count):
            row = rows[number] if number < len(rows) else None
            if not isinstance(row, Strided) or row.shape != (wanted,) or row.storage.dtype != given.start.dtype:
                what = (
                    f"With {case.label}: the parameters of rank {rank} became {plain.in_words(row)}. Keep the shapes "
                    f"({wanted} elements in all) and the dtype {given.start.dtype}."
                )
                raise bench.lost(case, "wrong_result", what, rank)
        ranks.append(np.stack([row.view().astype(np.float64) for row in rows[:count]]))
    return np.stack(ranks, 1)


# ---- mix


def _mixed(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult, Gossip, Array]]:
    """The finished mixes of `group`. Where ranks wait for each other it says in which case."""
    try:
        for case, result in bench.calls(group):
            gossip: Gossip = case.expected
            yield case, result, gossip, rows_of(bench, case, result, len(gossip.matrices))
    except Lost as loss:
        if loss.diagnosis.kind not in ("deadlock", "left_early") or loss.picture is None:
            raise
        message = f"With {loss.picture.case.label}: {loss.diagnosis.message}"
        raise Lost(replace(loss.diagnosis, message=message), loss.picture) from None


def exact(bench: RankBench, group: str = "exact") -> Outcome:
    """Every mix is the product with the mixing matrix."""
    for case, result, gossip, got in _mixed(bench, group):
        _compare(bench, case, result, gossip, got)
        if group == "exact":
            _lists_as_given(bench, case, result, gossip)
    return bench.picture(group)


def _lists_as_given(bench: RankBench, case: Case, result: CallResult, gossip: Gossip) -> None:
    """Raise Lost where a mix changed the lists that it was given: a caller may pass them again."""
    for rank, rounds in enumerate(gossip.told):
        after = checks.field(result, rank, "told")
        for number, (given, found) in enumerate(zip(rounds, after if isinstance(after, list) else [], strict=False)):
            for name, was, now in zip(("neighbours", "weights"), map(list, given), found, strict=True):
                if was != now:
                    what = (
                        f"With {case.label}: mix {number + 1} of {len(rounds)} changed the list `{name}` of rank {rank}. "
                        "The caller may pass the same list to the next mix. Change a copy of it instead."
                    )
                    raise bench.lost(case, "wrong_result", what, rank, plain.in_words(was), plain.in_words(now))


def _compare(bench: RankBench, case: Case, result: CallResult, gossip: Gossip, got: Array) -> None:
    checks.undisturbed(bench, case, result)
    right = gossip.after()
    wrong = first_wrong(got, right, gossip)
    if wrong is None:
        return
    number, rank, element = wrong
    one, other = plain.apart(float(got[wrong]), float(right[wrong]))
    when = f"mix {number + 1} of {len(right)}" if len(right) > 1 else "the mix"
    before = right[number - 1] if number else gossip.start.astype(np.float64)
    what = (
        f"With {case.label}: after {when}, rank {rank} has {one} instead of {other}, first in "
        f"{place(gossip.shapes, element)}. {_mix_habit(gossip, number, before, got[number], rank)}"
    )
    raise bench.lost(case, "wrong_result", what.strip(), rank, other, one)


def _mix_habit(gossip: Gossip, number: int, before: Array, got: Array, rank: int) -> str:
    right = gossip.matrices[number] @ before
    if near(got, right):
        return ""
    for matrix, sentence in mixing.mixing_mistakes(gossip, number):
        if not near(matrix @ before, right) and near(got, matrix @ before):
            return sentence
    if near(got, right, 1e-2):
        return (
            "The values are close, but not equal. If they are rounded on the way, send and add them in their dtype. "
            f"Otherwise check the formula: rank {rank} must have {_row_told(gossip, number, rank)}."
        )
    ends = np.cumsum([0, *map(math.prod, gossip.shapes)])
    bad = [k for k, (a, b) in enumerate(itertools.pairwise(ends)) if not near(got[:, a:b], right[:, a:b])]
    if len(bad) < len(gossip.shapes):
        these = f"tensor {bad[0]} is" if len(bad) == 1 else f"tensors {says.listed(bad)} are"
        return f"Only {these} wrong on any rank. Mix every tensor of the list."
    return f"Rank {rank} must have {_row_told(gossip, number, rank)}, with the values from before the mix.{_row_found(before, got, rank, gossip.told[rank][number][1])}"


def _row_found(before: Array, got: Array, rank: int, given: Sequence[float]) -> str:
    """The formula that a rank came to, where the values show one."""
    ranks, elements = before.shape
    if elements <= ranks or not np.isfinite([*before, *got]).all():
        return ""
    weights, _, independent, _ = np.linalg.lstsq(before.T, got[rank], rcond=1e-3)
    parts = [
        f"{weights[other]:.3g} x rank {other}'s"
        for other in range(ranks)
        if other != rank and abs(weights[other]) > 1e-3
    ]
    if independent < ranks or not near(weights @ before, got[rank]) or len(parts) > 5:
        return ""
    found = f" It has {' + '.join([f'{weights[rank]:.3g} x its own', *parts])}."
    each = [1 - weight for weight in given if weight]
    if abs(weights[rank] - math.prod(each)) > 1e-3 or abs(math.prod(each) - 1 + sum(given)) < 2e-3:
        return found
    return (
        f"{found} {weights[rank]:.3g} is {' x '.join(f'{one:.3g}' for one in each)}, so each neighbor was mixed into the "
        "result of the one before. Send the values from before the mix, and multiply the own ones once, by 1 - the sum of "
        "the weights."
    )


def _row_told(gossip: Gossip, number: int, rank: int) -> str:
    """What a rank must come to, as a formula."""
    neighbours, weights = gossip.told[rank][number]
    parts = [f"{1 - sum(weights):.3g} x its own"]
    parts += [f"{weight:.3g} x rank {other}'s" for other, weight in zip(neighbours, weights, strict=True)]
    return " + ".join(parts)


@checks.judged(_mixed, "mean")
def mean(bench: RankBench, case: Case, _: CallResult, gossip: Gossip, got: Array) -> None:
    """The mean over all ranks stays what it is, to 1e-6, mix after mix."""
    before = gossip.start.astype(np.float64)
    wanted = before.mean(0)
    for number, now in enumerate(got):
        drift = np.abs(now.mean(0) - wanted)
        if not (drift <= MEAN).all():
            element = int(np.argmax(np.where(np.isnan(drift), np.inf, drift)))
            one, other = plain.apart(float(now[:, element].mean()), float(wanted[element]))
            what = (
                f"With {case.label}: in mix {number + 1} of {len(got)} the mean over all ranks goes from {other} "
                f"to {one}. The weights are doubly stochastic, so a mix of the values from before it keeps the "
                f"mean. {_mean_habit(gossip, number, before, now)}"
            )
            raise bench.lost(case, "wrong_result", what.strip(), None, other, one)
        idle = [rank for rank in range(case.ranks) if gossip.told[rank][number][0] and (now == before)[rank].all()]
        if idle and not number:  # later a rank may be at the mean
            what = (
                f"With {case.label}: mix {number + 1} of {len(got)} changed nothing on rank {idle[0]}, which has "
                f"neighbors. Change the given tensors in place."
            )
            raise bench.lost(case, "wrong_result", what, idle[0])
        before = now


def _mean_habit(gossip: Gossip, number: int, before: Array, now: Array) -> str:
    right = gossip.matrices[number] @ before
    rank = int(np.argmax([not near(one, other) for one, other in zip(now, right, strict=True)]))
    return _mix_habit(gossip, number, before, now, rank)


@checks.judged(_mixed, "consensus")
def consensus(bench: RankBench, case: Case, _: CallResult, gossip: Gossip, got: Array) -> None:
    """The distance of the ranks from their mean shrinks in each mix by 1 - the spectral gap, or more."""
    rate = mixing.rate(gossip.matrices[0])
    first = _error(gossip.start.astype(np.float64))
    for number, now in enumerate(got):
        error, allowed = _error(now), first * rate ** (number + 1) * (1 + 1e-6) + 1e-11
        where = f"{case.label}, after {says.counted(number + 1, 'mix', 'mixes')}"
        tally.note("distance of the ranks from their mean", error, allowed, where=where)
        if error <= allowed:
            continue
        before = got[number - 1] if number else gossip.start.astype(np.float64)
        why = _mean_habit(gossip, number, before, now)
        if not why and 1e-10 < error < 1e-5:
            why = "Rounding the values on their way leaves about that much. Send and add the values in their own dtype."
        what = (
            f"With {case.label}: after {says.counted(number + 1, 'mix', 'mixes')} the ranks' distance from their mean "
            f"is {error:.3g}. It was {first:.3g} at first. The second largest singular value of the mixing matrix is "
            f"{rate:.4f}, so at most {first:.3g} x {rate:.4f}^{number + 1} = {allowed:.3g} may be left. {why}"
        )
        raise bench.lost(case, "not_converged", what.strip(), None, f"at most {allowed:.3g}", f"{error:.3g}")


def _error(values: Array) -> float:
    with np.errstate(all="ignore"):
        error = float(np.linalg.norm(values - values.mean(0)))
    return error if math.isfinite(error) else math.inf


@checks.judged(RankBench.calls, "traffic")
def neighbours_only(bench: RankBench, case: Case, result: CallResult) -> None:
    """A rank sends its tensors to its neighbours, to each once, and to nobody else."""
    gossip: Gossip = case.expected
    size = gossip.start[0].nbytes
    for rank in range(case.ranks):
        heard = gossip.told[rank][0][0]
        operations = result.trace.operations(rank)
        strangers = sorted({op.peer for op in operations if op.kind == SEND and op.size} - set(heard))
        if strangers:
            what = (
                f"With {case.label}: rank {rank} sent to rank {strangers[0]}, which is not one of its neighbors "
                f"{sorted(heard)}. Send to the neighbors only."
            )
            texts = f"ranks {sorted(heard)}", f"rank {strangers[0]}"
            raise bench.lost(case, "too_many_bytes", what, rank, *texts)
        sent = result.trace.bytes_sent(rank)
        allowed = len(heard) * (size + HEADER * len(gossip.shapes))
        tally.note("bytes a rank sends in a mix", sent, allowed, "bytes", where=case.label,
                   reference=2 * (case.ranks - 1) * size / case.ranks, of="an all-reduce")  # fmt: skip
        if sent > allowed:
            names = ", ".join(dict.fromkeys(op.name for op in operations if not op.receives))
            what = (
                f"With {case.label}: rank {rank} sent {sent:,} bytes ({names}) in one mix. Its tensors, once for each of "
                f"{says.counted(len(heard), 'neighbor')}, are {len(heard) * size:,} bytes. {_sent_habit(operations, gossip)}"
            )
            texts = f"at most {allowed:,} bytes", f"{sent:,} bytes"
            raise bench.lost(case, "too_many_bytes", what.strip(), rank, *texts)
    total = sum(result.trace.bytes_sent(rank) for rank in range(case.ranks))
    if total < 0.9 * case.ranks * size:
        what = (
            f"With {case.label}: all ranks together sent {total:,} bytes. Send each neighbor all tensors, which are "
            f"{size:,} bytes."
        )
        texts = f"at least {case.ranks * size:,} bytes", f"{total:,} bytes"
        raise bench.lost(case, "too_few_bytes", what, None, *texts)


def _sent_habit(operations: list[Operation], gossip: Gossip) -> str:
    if any(op.collective for op in operations):
        return "Send to the neighbors point to point, without a collective."
    dtype = gossip.start.dtype.name
    if any(op.kind == SEND and op.dtype == "float64" != dtype for op in operations):
        return f"Some of the bytes travel as float64. Send the tensors in their own dtype, {dtype}."
    return "Send each tensor once to each neighbor."
