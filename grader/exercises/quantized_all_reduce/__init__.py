"""quantized_all_reduce(tensor, block): in place, the sum over ranks, of which float8 codes with a scale a block travel.

Two quantizations, a reduce-scatter and an all-gather, as in ZeRO++ (Wang et al. 2023, section 3.3) and Flash
Communication (Li et al. 2024); block scales as in FP8 training (DeepSeek-V3 2024, section 3.3.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from grader import says, tally
from grader.exercise import Check, Exercise
from grader.exercises.common import checks, sums
from grader.exercises.quantized_all_reduce import hints
from grader.exercises.quantized_all_reduce.cases import cases
from grader.exercises.quantized_all_reduce.float8 import Array, Job, reference
from grader.lost import Lost
from grader.ranks.program import CallResult, Function, Strided
from grader.trace.events import SEND, Operation
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench, Ranks

ITEM = 4  # bytes of a float32
SHARE = 0.27  # of the bytes of a float32 ring: a code a value, and a float32 scale a block of 64 or more
HEADER = 64  # bytes that a message may have besides
OWNED = "Let each element have one owner, and let every rank, the owner too, take the sum from the owner's codes."
MOST_SHARE = 0.45  # headers included, however many messages there are
ROUGHLY, UNRECORDED = 1.25, 4096  # times that, and bytes for each other rank, where headers count as well
FACTOR = 1.25  # of the reference's root mean square error


def _calls(bench: RankBench, group: str) -> Iterator[tuple[Case, Job, CallResult]]:
    """The finished calls of a group, with the tensors as they were; raises Lost for what must not be in any."""
    try:
        for case, result in bench.calls(group):
            checks.clean(bench, case, result)
            if found := sums.malformed(case, result, bench.program.file):
                raise Lost(found, bench.outcome(case))
            yield case, case.expected, result
    except Lost as lost:
        raise _of_zeros(lost) from None


def _of_zeros(lost: Lost) -> Lost:
    """The same loss, and where a rank with nothing but zeros returned while others wait, also that it has only those."""
    found = lost.diagnosis
    if found.kind == "left_early" and isinstance(lost.picture, Outcome):
        inputs = lost.picture.case.expected.inputs
        empty = says.names([rank for rank, each in enumerate(inputs) if len(each) and not each.any()])
        if found.message.startswith(f"{empty.capitalize()} returned"):
            why = f"In this call, the tensor of {empty} is all zeros. It must take part all the same: it needs the sum, too."
            lost.diagnosis = replace(found, message=f"{found.message} {why}")
    return lost


def _results(result: CallResult) -> list[Array]:
    """Every rank's tensor after the call, as a vector of float64 in the order of indices."""
    return [arguments[0].view().astype(np.float64).reshape(-1) for arguments in result.arguments]


def _contiguous(tensor: Strided) -> bool:
    return tensor.view().flags.c_contiguous


def _right(bench: RankBench, case: Case, job: Job, result: CallResult) -> None:
    """Raise Lost where an element is further from the sum than two quantizations of its block explain."""
    for rank, got in enumerate(_results(result)):
        wrong = job.wrong(got)
        if len(wrong):
            place = int(wrong[0])
            off, limit = abs(got[place] - job.total[place]), job.allowed[place]
            by = f"It is off by {off:.4g}, and at most {limit:.4g} is allowed. " if np.isfinite(off) else ""
            share = f"{len(wrong):,} of {got.size:,} elements {'is' if len(wrong) == 1 else 'are'}"
            share = "its only element is" if got.size == 1 else share
            message = (
                f"With {case.label}: on rank {rank}, {share} too far from the sum. Element {place} is {got[place]:.6g} "
                f"instead of {job.total[place]:.6g}. {by}{hints.why(job, rank, got, wrong, _contiguous(case.tensors[rank]))}"
            )
            texts = f"{job.total[place]:.6g} +- {limit:.4g}", f"{got[place]:.6g}"
            raise bench.lost(case, "wrong_result", message.strip(), rank, *texts)
        if found := sums.spilled(case, result, rank, bench.program.file):
            raise Lost(found, bench.outcome(case))


def _values(bench: RankBench, group: str) -> Iterator[tuple[Case, Job, CallResult]]:
    """The calls of `group`, each found right."""
    for case, job, result in _calls(bench, group):
        _right(bench, case, job, result)
        yield case, job, result


def _accuracy(bench: RankBench) -> Outcome:
    """As accurate as two quantizations can be, also where large and small values are added."""
    for case, job, result in _calls(bench, "accuracy"):
        _right(bench, case, job, result)
        known = job.error(reference(job.inputs, job.block))
        for rank, got in enumerate(_results(result)):
            error = job.error(got)
            tally.note("root mean square error", error, FACTOR * known, where=case.label, reference=known,
                       of="two quantizations")  # fmt: skip
            if error > FACTOR * known:
                message = (
                    f"With {case.label}: the root mean square error on rank {rank} is {error:.4g}. The reference has "
                    f"{known:.4g}, and at most {FACTOR:g} times as much is allowed. {hints.inaccurate(job, got, error)}"
                )
                raise bench.lost(case, "wrong_result", message, rank, f"<= {FACTOR * known:.4g}", f"{error:.4g}")
    for case, job, result in _calls(bench, "unequal"):
        _right(bench, case, job, result)
    return bench.picture("accuracy")


@checks.judged(_values, "agreement", because="the result is wrong")
def _agreement(bench: RankBench, case: Case, job: Job, result: CallResult) -> None:
    """All ranks have the very same bits."""
    bits = [np.ascontiguousarray(arguments[0].view()).reshape(-1).view(np.uint32) for arguments in result.arguments]
    results = _results(result)
    for rank, mine in enumerate(bits[1:], 1):
        places = np.flatnonzero(mine != bits[0])
        if len(places):
            place = int(places[0])
            said = [hints.apart(job, results, each) for each in range(case.ranks)]
            message = (
                f"With {case.label}: rank {rank}'s result differs from rank 0's in {len(places)} of "
                f"{says.counted(len(mine), 'element')}: element {place} is {results[rank][place]:.8g} there and "
                f"{results[0][place]:.8g} on rank 0. All ranks must end with the same bits. "
                f"{next(filter(None, said), OWNED)}"
            )
            texts = f"{results[0][place]:.8g}", f"{results[rank][place]:.8g}"
            raise bench.lost(case, "wrong_result", message, rank, *texts)


@checks.judged(_values, "zeros")
def _zeros(bench: RankBench, case: Case, job: Job, result: CallResult) -> None:
    """What is 0 on all ranks is 0 in the sum."""
    nothing = ~np.any(job.inputs, axis=0)
    for rank, got in enumerate(_results(result)):
        places = np.flatnonzero(nothing & (got != 0))
        if len(places):
            place = int(places[0])
            message = (
                f"With {case.label}: element {place} is 0 on every rank, but {got[place]:.4g} in rank {rank}'s result. "
                "The code of 0 must stand for exactly 0."
            )
            raise bench.lost(case, "wrong_result", message, rank, "0", f"{got[place]:.4g}")


@checks.judged(_values, "bytes", because="the result is wrong")
def _bytes(bench: RankBench, case: Case, job: Job, result: CallResult) -> None:
    """What each rank sends: codes of a byte and a scale a block, twice over the ring's bytes."""
    n, size = case.ranks, len(job.total) * ITEM
    ring = 2 * (n - 1) / n * size
    if not result.trace.virtual and not any(result.trace.operations(rank) for rank in range(n)):
        _unrecorded(bench, case, result, ring)
        return
    sent = [result.trace.bytes_sent(rank) for rank in range(n)]
    for rank in range(n):
        headers = HEADER * sum(_messages(op, n) for op in result.trace.operations(rank))
        allowed = int(min(SHARE * ring + headers, MOST_SHARE * ring + 4 * HEADER * (n - 1)))
        tally.note("bytes a rank sends", sent[rank], allowed, "bytes", where=case.label, reference=ring,
                   of="a ring of float32")  # fmt: skip
        if sent[rank] > allowed:
            message = (
                f"With {case.label}: rank {rank} sent {sent[rank]:,} bytes, but at most {allowed:,} are allowed. That is "
                f"{SHARE:g} times the {ring:,.0f} bytes of a ring of float32, and {HEADER:,} bytes a message. "
                f"{_too_many(sent[rank], ring, job, n, result.trace.operations(rank))}"
            )
            raise bench.lost(case, "too_many_bytes", message.strip(), rank, f"<= {allowed:,}", f"{sent[rank]:,}")
    least = (n - 1) * len(job.total)
    if sum(sent) < least:
        message = (
            f"With {case.label}: all ranks together sent {sum(sent):,} bytes. The codes of {n - 1} ranks alone are "
            f"{least:,} bytes. The values must have reached other ranks in some other way than by messages."
        )
        raise bench.lost(case, "too_few_bytes", message, None, f">= {least:,}", f"{sum(sent):,}")


def _unrecorded(bench: RankBench, case: Case, result: CallResult, ring: float) -> None:
    """Functional collectives of real processes are called in C++, where nothing is recorded: what the kernel counted, with
    the headers of gloo and TCP, is held against a rough bound. Simulated ranks are held against the exact one."""
    codes, allowed = ring / ITEM, int(ROUGHLY * SHARE * ring + UNRECORDED * (case.ranks - 1))
    for rank, sent in enumerate(result.sent):
        if not codes <= sent <= allowed:
            few = sent < codes
            message = (
                f"With {case.label}: the sockets of rank {rank} sent {sent:,} bytes. "
                + (f"Its codes alone take about {codes:,.0f} bytes" if few else f"At most {allowed:,} are allowed")
                + ". Send codes of one byte and scales, by messages between the ranks."
            )
            raise bench.lost(case, "too_few_bytes" if few else "too_many_bytes", message, rank)


def _messages(operation: Operation, n: int) -> int:
    """How many messages an operation makes a rank send, of a collective those of a ring."""
    if operation.collective:
        return (n - 1) * (1 + operation.name.startswith("all_reduce"))
    return int(operation.kind == SEND)


def _of_a_byte(operations: Sequence[Operation]) -> bool:
    """Whether most of what a rank sent has a data type of one byte. float8 is not known by its name."""
    sends = [op for op in operations if op.kind == SEND or op.collective]
    return 2 * sum(op.size for op in sends if op.dtype in ("", "uint8", "int8")) > sum(op.size for op in sends)


def _too_many(sent: float, ring: float, job: Job, n: int, operations: Sequence[Operation]) -> str:
    """What takes as many bytes."""
    codes = ring / ITEM
    if sent >= 0.99 * ring and not _of_a_byte(operations):
        return "It sent at least as much as an all-reduce of float32 values would. Send codes of one byte."
    if n > 2 and sent >= 0.99 * (n - 1) * len(job.total):
        return (
            "That many bytes are enough to send the codes of the whole tensor to every other rank. Send each rank only the "
            "codes of the shard that it adds up."
        )
    per_block = (sent - codes) / (codes / job.block)
    if 0 < per_block <= job.block / 2:
        return f"Codes take {codes:,.0f} bytes of it. The rest is {per_block:.3g} bytes a block, and a float32 scale has 4."
    most = max((op for op in operations if op.collective), key=lambda op: op.size, default=None)
    said = f"Codes of one byte take {codes:,.0f} bytes, half of them on the way to the owners and half on the way back."
    if most is None or most.dtype != "float32" or most.size <= codes / 2:  # as scales may
        return said
    return f"{said} The {most.name} at line {most.line} took {most.size:,} bytes of float32. Send codes and one scale a block instead."


@checks.judged(_values, "alone")
def _alone(bench: RankBench, case: Case, job: Job, result: CallResult) -> None:
    """One rank has the sum already: not a bit changes."""
    before, after = (np.ascontiguousarray(each.view()) for each in (case.tensors[0], result.arguments[0][0]))
    changed = np.flatnonzero(before.reshape(-1).view(np.uint32) != after.reshape(-1).view(np.uint32))
    if len(changed):
        place = int(changed[0])
        was, now = f"{before.reshape(-1)[place]:.8g}", f"{after.reshape(-1)[place]:.8g}"
        message = (
            f"With {case.label}: {len(changed)} of {says.counted(before.size, 'element')} changed. Element {place} was "
            f"{was} and is {now}. One rank has the sum already: do not quantize it."
        )
        raise bench.lost(case, "wrong_result", message, 0, was, now)


right = partial(checks.right, _values)

EXERCISE = Exercise(
    name="quantized_all_reduce",
    chapter="16",
    title="Quantized all-reduce",
    minutes=50,
    difficulty=2,
    cost="seconds",
    world=Ranks(
        (Function("quantized_all_reduce", ("tensor", "block")),),
        cases,
        counted=True,
        imported=("torch._dynamo",),  # functional collectives do so when they are first called
    ),
    checks=(
        Check("error", "Each element as close to the sum as its block's scale allows", 5, right("error")),
        Check("accuracy", "Two quantizations, float32 in between, and no more error", 4, _accuracy),
        Check("agreement", "The same bits on all ranks", 3, _agreement),
        Check("zeros", "Zeros and blocks of zeros", 2, _zeros),
        Check("bytes", "At most 0.27 of the bytes of a float32 ring", 4, _bytes),
        Check("shapes", "Any length, shape and layout", 3, right("shapes")),
        Check("alone", "One rank: not a bit changes", 1, _alone),
        Check("real", "Real gloo processes, and a large tensor", 2, right("real")),
    ),
)
