"""TopKAllReduce(ratio): the mean over ranks of each rank's largest gradients; what is not sent is kept for later.

Top-k sparsification is that of Aji and Heafield 2017 and of Deep Gradient Compression (Lin et al. 2018, section 3.1);
that it converges with error feedback, and not without, is shown by Stich, Cordonnier and Jaggi 2018 and by Karimireddy
et al. 2019.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from grader import tally
from grader.exercise import Check, Exercise
from grader.exercises.common import checks
from grader.exercises.gradient_compression.compression import UNCLEARED, Array, Job, Problem, cases, close, habit
from grader.ranks.program import CallResult, Function, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench, Ranks

ITEM = 4  # bytes of a float32
HEADER = 64
FACTOR = 1.1
COPIED = (
    " This gradient is not contiguous, so reshape(-1) and flatten() can return a copy. Zeros that you write into a copy do not "
    "reach the residual."
)


def _calls(bench: RankBench, group: str) -> Iterator[tuple[Case, Job, CallResult]]:
    """The finished calls of a group; raises Lost for what must not be in any, right or wrong."""
    for case, result in bench.calls(group):
        checks.clean(bench, case, result)
        yield case, case.expected, result


def _array(found: Any) -> Array | str:
    """A result's values, or what it is if it is no tensor of numbers."""
    if not isinstance(found, Strided):
        return found if isinstance(found, str) else "nothing"
    values = found.view()
    if values.dtype.kind not in "fiu":
        return f"a tensor of {values.dtype.name}"
    return values.astype(np.float64)


def _results(bench: RankBench, case: Case, job: Job, result: CallResult, call: int) -> list[Array]:
    """What a call returned on every rank. Raises Lost where it is no tensor with the gradient's shape."""
    found = []
    for rank in range(case.ranks):
        results = checks.field(result, rank, "results")
        got = _array(results[call]) if isinstance(results, list) and len(results) > call else "nothing"
        shape = job.expected[call].shape
        if isinstance(got, str) or got.shape != shape:
            what = got if isinstance(got, str) else f"a tensor of shape {got.shape}"
            message = (
                f"With {case.label}: {_which(job, call)} returned {what} on rank {rank}. Return the mean as a "
                f"dense tensor of the gradient's shape {shape}."
            )
            raise bench.lost(case, "wrong_result", message, rank, str(shape), what)
        found.append(got)
    return found


def _which(job: Job, call: int) -> str:
    """A call, in words: "call 2 for layers.0.bias", counted for each object and name."""
    which, name, _ = job.calls[call]
    earlier = sum(one[:2] == (which, name) for one in job.calls[:call])
    return f"call {earlier + 1} for {name}"


def _right(bench: RankBench, case: Case, job: Job, result: CallResult, calls: int) -> None:
    """Raise Lost where one of the first `calls` results is not what it must be."""
    for call in range(calls):
        expected = job.expected[call]
        for rank, got in enumerate(_results(bench, case, job, result, call)):
            if close(got, expected):
                continue
            wrong = np.flatnonzero(~np.isclose(got, expected, rtol=1e-5, atol=1e-5).reshape(-1))
            place, flat = int(wrong[0]), got.reshape(-1)
            why = habit(job, call, got) or _guess(job, call, rank, got)
            if why == UNCLEARED and not case.arguments[rank][1][call][2].view().flags.c_contiguous:
                why += COPIED
            message = (
                f"With {case.label}: in {_which(job, call)} rank {rank}'s result is wrong in {len(wrong)} of "
                f"{expected.size} elements: element {place} is {flat[place]:.6g} instead of "
                f"{expected.reshape(-1)[place]:.6g}. {why}"
            ).strip()
            texts = f"{expected.reshape(-1)[place]:.6g}", f"{flat[place]:.6g}"
            raise bench.lost(case, "wrong_result", message, rank, *texts)


def _unchanged(bench: RankBench, case: Case, job: Job, result: CallResult) -> None:
    """Raise Lost where a call changed another name's result: all of them are used after the last call."""
    for rank in range(case.ranks):
        match checks.field(result, rank, "changed"):
            case [[int(call), int(by), tensor], *_] if 0 <= call < by < len(job.calls):
                now, was = _array(tensor), _results(bench, case, job, result, call)[rank]
                other = "" if job.calls[by][0] == job.calls[call][0] else " of the other object"
                differ = "it has another shape now"
                if not isinstance(now, str) and now.shape == was.shape and (now != was).any():
                    place = int(np.flatnonzero(now != was)[0])
                    differ = (
                        f"element {place} was {was.reshape(-1)[place]:.6g}, and is {now.reshape(-1)[place]:.6g} now"
                    )
                message = (
                    f"With {case.label}: on rank {rank}, {_which(job, call)} returned the right mean, but "
                    f"{_which(job, by)}{other} changed that tensor: {differ}. The optimizer reads the results of all names "
                    "after the last call. Do not use a result's memory again for other names or in other objects."
                )
                raise bench.lost(case, "wrong_result", message, rank, "unchanged", "changed")


def _right_together(bench: RankBench, case: Case, job: Job, result: CallResult) -> None:
    """Raise Lost where what all calls return together is not the gradients' mean: some was sent twice, or never."""
    results = [_results(bench, case, job, result, call) for call in range(len(job.calls))]
    expected = np.sum(job.expected, axis=0)
    for rank in range(case.ranks):
        total = np.sum([of_call[rank] for of_call in results], axis=0)
        if close(total, expected):
            continue
        wrong = np.flatnonzero(~np.isclose(total, expected, rtol=1e-5, atol=1e-5).reshape(-1))
        place = int(wrong[0])
        texts = f"{expected.reshape(-1)[place]:.6g}", f"{total.reshape(-1)[place]:.6g}"
        message = (
            f"With {case.label}: added up, the results of all calls on rank {rank} are wrong in {len(wrong)} of "
            f"{expected.size} elements: element {place} is {texts[1]} instead of {texts[0]}. Each rank must send "
            "each element exactly once here. Clear exactly the k elements that were sent. Keep others in the residual, also those that "
            "are equally large."
        )
        raise bench.lost(case, "wrong_result", message, rank, *texts)


def _guess(job: Job, call: int, rank: int, got: Array) -> str:
    """What can be told of a result that no known mistake gives."""
    count, expected = np.count_nonzero(got), job.expected[call].reshape(-1)
    if not count:
        return "The result is zero everywhere."
    if expected.size > 2**15:
        cut = np.zeros_like(expected)
        np.add.at(cut, np.arange(expected.size).astype(np.int16), expected)
        if close(got.reshape(-1), cut):
            return "This comes out if places are sent as int16, which ends at 32,767. Send wider ones."
    if (nonzero := np.count_nonzero(job.expected[call])) > count and count <= job.sent(call):
        return f"It has {count} nonzero elements instead of {nonzero}. Return all that the ranks have sent, added up."
    if sum(one[:2] == job.calls[call][:2] for one in job.calls[:call]):
        return "Add what a rank has not sent, and nothing else, to the rank's next gradient of the same name."
    return ""


def _values(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult]]:
    """The calls of `group`, each found right."""
    for case, job, result in _calls(bench, group):
        if job.together:
            _right_together(bench, case, job, result)
        else:
            _right(bench, case, job, result, len(job.calls))
            _unchanged(bench, case, job, result)
        yield case, result


@checks.judged(_calls, "bytes")
def _bytes(bench: RankBench, case: Case, job: Job, result: CallResult) -> None:
    """What each rank sends in all calls together; results of the first are judged too, or sending less would do."""
    n, count = case.ranks, len(job.calls)
    k, size = job.sent(0), job.elements(0)
    allowed = count * (2 * k * ITEM + HEADER) * (n - 1)
    for rank in range(n):
        sent = result.trace.bytes_sent(rank)
        tally.note("bytes a rank sends", sent, allowed, "bytes", where=case.label,
                   reference=2 * (n - 1) / n * count * size * ITEM, of="a ring of whole gradients")  # fmt: skip
        if sent > allowed:
            message = (
                f"With {case.label}: rank {rank} sent {sent:,} bytes, but at most {allowed:,} are allowed. In each "
                f"call, send k values, k places and up to {HEADER:,} bytes of headers to each other rank. "
                f"{_too_many(result, sent / count, k, size, n)}"
            )
            raise bench.lost(case, "too_many_bytes", message.strip(), rank, f"<= {allowed}", str(sent))
    if not sum(result.trace.bytes_sent(rank) for rank in range(n)):
        message = f"With {case.label}: no rank sent anything. Exchange the values and places of all ranks."
        raise bench.lost(case, "too_few_bytes", message, None, "> 0", "0")
    with checks.not_about("the result is wrong"):
        _right(bench, case, job, result, 1)


def _too_many(result: CallResult, sent: float, k: int, size: int, n: int) -> str:
    """The mistake that makes a rank send so many bytes in a call."""
    whole = size * ITEM
    if sent >= 0.99 * 2 * (n - 1) * whole / n:
        return f"Each call sends enough for an all-reduce of all {whole:,} bytes. Send only the k values and places."
    if any(op.dtype == "float64" for op in result.trace.all_operations()):
        return "Some of the bytes travel as float64. Send the values as float32."
    if abs(sent - 3 * k * ITEM * (n - 1)) <= HEADER * (n - 1):
        return "Each call sends as many bytes as k values and int64 places take. int32 is enough for places."
    return ""


@checks.judged(_calls, "agreement")
def _agreement(bench: RankBench, case: Case, job: Job, result: CallResult) -> None:
    """All ranks have the very same bits, where rounding depends on the order of the sum."""
    with checks.not_about("the result is wrong"):
        _right(bench, case, job, result, 1)
    for call in range(len(job.calls)):
        first, *others = _results(bench, case, job, result, call)
        for rank, got in enumerate(others, 1):
            different = ~((got == first) | (np.isnan(got) & np.isnan(first)))
            if different.any():
                most = float(np.abs(got - first).max())
                message = (
                    f"With {case.label}: in {_which(job, call)} rank {rank}'s result differs from rank 0's in "
                    f"{int(different.sum())} of {first.size} elements, by up to {most:.2g}. Add up what "
                    "the ranks sent in the same order on every rank, otherwise the replicas drift apart."
                )
                raise bench.lost(case, "wrong_result", message, rank, "the same bits", f"{most:.2g} apart")


@checks.judged(RankBench.calls, "convergence")
def _convergence(bench: RankBench, case: Case, result: CallResult) -> None:
    """Training reaches the loss that it reaches with the mean of the whole gradients."""
    checks.clean(bench, case, result)
    problem: Problem = case.expected
    dense = problem.loss(problem.dense())
    for rank in range(case.ranks):
        got = _array(checks.field(result, rank, "parameters"))
        if isinstance(got, str) or got.shape != problem.start.shape:
            what = got if isinstance(got, str) else f"a tensor of shape {got.shape}"
            message = f"With {case.label}: a call on rank {rank} returned {what}. Return a dense tensor."
            raise bench.lost(case, "wrong_result", message, rank)
        loss = problem.loss(got) if np.abs(got).max() < 1e9 else float("inf")
        tally.note("loss after training", loss, FACTOR * dense, where=case.label, reference=dense,
                   of="whole gradients")  # fmt: skip
        if not loss <= FACTOR * dense:
            said = (
                "Every rank's gradients must count in the end, and each once. Add the residual to the gradient, and send the k "
                "largest magnitudes. Keep exactly the rest as the residual, and return the mean over the ranks."
            )
            if not loss < problem.loss(problem.start.astype(np.float64)):
                said = f"The loss is not below its start. {said}"
            message = (
                f"With {case.label}: after {problem.steps} steps rank {rank}'s parameters have a loss of {loss:.4g}. "
                f"Whole gradients reach {dense:.4g}, and at most {FACTOR:g} times as much is allowed. {said}"
            )
            limit = f"<= {FACTOR * dense:.4g}"
            raise bench.lost(case, "not_converged", message, rank, limit, f"{loss:.4g}")


right = partial(checks.right, _values)

EXERCISE = Exercise(
    name="gradient_compression",
    chapter="07",
    title="Gradient compression with error feedback",
    minutes=50,
    difficulty=2,
    cost="seconds",
    world=Ranks(
        (Function("TopKAllReduce", ("ratio",)),),
        cases,
        limits=checks.TRAINING,
    ),
    checks=(
        Check("first_step", "The mean of each rank's k largest by magnitude", 4, right("first_step")),
        Check("feedback", "What was not sent is added to the next gradient, per name", 5, right("feedback")),
        Check("bytes", "k values and k places to each other rank, and little more", 4, _bytes),
        Check("agreement", "The same bits on all ranks", 2, _agreement),
        Check("convergence", "The loss of the whole gradients, within 10 %", 3, _convergence),
        Check("shapes", "Matrices, transposed and strided gradients", 2, right("shapes")),
        Check("real", "Real gloo processes, and a large gradient", 2, right("real")),
    ),
)
