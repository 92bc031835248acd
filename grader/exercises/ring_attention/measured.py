"""Judges of what ring_attention takes: bytes, memory, and the time that transfers add to the computing."""

from __future__ import annotations

import math
from typing import Any

from grader import tally
from grader.exercises.common import checks, plain
from grader.exercises.common.checks import field, if_right
from grader.exercises.ring_attention.judging import WRONG, Attention, finished, values
from grader.exercises.ring_attention.problems import Size
from grader.lost import Lost, Unable
from grader.ranks.network import Network
from grader.ranks.program import CallResult
from grader.trace.events import SEND, Operation, Span
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

PASSES = ("forward", "backward")
MARK = "begin"  # as in_box names what it computes at the beginning of a pass
TRANSFER = 1e-4  # seconds that one rank's K and V are on their way
BLOCK = 2 * TRANSFER  # seconds of the two products of one rank's queries with one rank's keys
EXPOSED = {"forward": 1.5, "backward": 2.5}  # transfers that may not be hidden
NEEDED = {"forward": 2, "backward": 5}  # products: q k, w v; and in the backward pass w anew and one for each gradient
WORK = {"forward": 1.15, "backward": 1.45}  # of these products: no more counts as computing
AT_ONCE, KEPT, ROOM = 2, 0.1, 0.1  # pairs of K and V
NANOSECONDS = 1e9


def network(size: Size) -> Network:
    """On which one rank's K and V take TRANSFER seconds, in one message or in two."""
    return Network(alpha=TRANSFER / 1000, beta=TRANSFER / size.pair)


def seconds(size: Size) -> float:
    """Of one multiply-add, so that a block takes BLOCK seconds."""
    return BLOCK / (2 * size.batch * size.heads * size.length**2 * size.dim)


# ---- bytes


def sent(bench: RankBench) -> Outcome:
    """Bytes of each pass: N - 1 pairs of K and V forward, N and as many of their gradients backward."""
    for case, result in finished(bench):
        about: Attention = case.expected
        calls, n = len(about.given), case.ranks
        pair = calls * about.size.pair
        budget = ((n - 1) * pair, 2 * n * pair if n > 1 else 0)
        for rank in range(n):
            parts = checks.by_step(result, rank, len(PASSES))
            limits = budget if len(parts) == len(PASSES) else (sum(budget),)
            for name, operations, allowed in zip(PASSES, parts, limits, strict=False):
                count = sum(op.size for op in operations if op.kind == SEND)
                if case.group == "full":
                    tally.note(f"bytes a rank sends {name}", count, allowed, "bytes", where=case.label)
                if count > allowed:
                    what = _too_much(case, name, rank, count, allowed, pair, operations)
                    raise bench.lost(
                        case, "too_many_bytes", what, rank, f"at most {allowed:,} bytes", f"{count:,} bytes"
                    )
    return bench.picture("full")


def _too_much(
    case: Case, name: str, rank: int, count: int, allowed: int, pair: int, operations: list[Operation]
) -> str:
    n = case.ranks
    told = (
        f"With {case.label}: in the {name} pass, rank {rank} sends {count:,} bytes, {count / pair:.3g} times one rank's K "
        f"and V ({pair:,} bytes). "
    )
    if any(op.dtype == "float64" for op in operations):
        return told + "Some messages are float64. Send float32."
    if name == "forward":
        told += f"At most N-1 = {n - 1} times are allowed: {allowed:,} bytes. "
        if count == n * pair:
            return (
                told + "After N-1 steps every rank has met every shard. Leave out the last step, which sends each home."
            )
    else:
        told += (
            f"At most N = {n} times for K and V and N = {n} times for their gradients are allowed: {allowed:,} bytes. "
        )
    return (
        told
        + "Pass on K and V, which every rank needs, and in the backward pass also their gradients. Send nothing else."
    )


# ---- memory


def memory(bench: RankBench) -> Outcome:
    """Two pairs of other ranks' K and V at a time, in the backward pass also two of their gradients; nothing between the
    passes; no tensor of the whole matrix."""
    _by_messages(bench)
    for case, result in if_right(values(bench, "memory"), WRONG):
        about: Attention = case.expected
        pair = about.size.pair // 4
        for rank in range(case.ranks):
            told = field(result, rank, "memory")
            if not isinstance(told, dict):
                raise Unable("Not judged, because memory is measured on simulated ranks. Choose no engine, or sim.")
            _no_square(bench, case, rank, told)
            for name, what, most in (
                ("forward", "known", AT_ONCE + ROOM), ("between", "known", KEPT), ("backward", "known", AT_ONCE + ROOM),
                ("backward", "gradients", AT_ONCE + ROOM),
            ):  # fmt: skip
                count, line = _most(told, name, what)
                if name == "forward":
                    tally.note("other ranks' K and V on a rank", count / pair, AT_ONCE + ROOM, "pairs", where=case.label,
                               reference=case.ranks - 1, of="an all-gather")  # fmt: skip
                if count > most * pair:
                    message = f"With {case.label}: {_crowded(rank, name, what, count / pair, line)}"
                    limit = f"at most {int(most)} pairs" if most > 1 else "none"
                    raise bench.lost(case, "too_much_memory", message, rank, limit, f"{count / pair:.3g} pairs")
        _sent_again(bench, case, result)
    return bench.picture("memory")


def _by_messages(bench: RankBench) -> None:
    """Raise Lost for ranks that share more than messages, which shows where they are compared with real processes: here
    they are not."""
    for group in ("full", "causal"):
        try:
            for _ in bench.calls(group):
                pass
        except Lost as loss:
            if loss.diagnosis.kind == "sandbox_violation":
                raise


def _most(told: dict[str, Any], name: str, what: str) -> tuple[float, int]:
    """The most numbers that were seen, and the learner's line there."""
    found = told.get(name)
    entry = plain.pair(found.get(what)) if isinstance(found, dict) else None
    return (math.inf, 0) if entry is None else (entry[0], int(entry[1]))


def _crowded(rank: int, name: str, what: str, pairs: float, line: int) -> str:
    at = f" at line {line}" if line else ""
    if name == "between":
        return (
            f"between the forward and the backward pass, rank {rank} keeps {pairs:.3g} of other ranks' pairs of K and V. "
            "Keep none: save only the rank's own q, k, v, output and sums for the backward pass, and send K and V round "
            "again there."
        )
    if what == "gradients":
        return (
            f"in the backward pass{at}, rank {rank} holds {pairs:.3g} pairs of gradients of K and V that it received or is "
            "about to receive. Two at a time are enough: the one that it works on, and the next one."
        )
    return (
        f"in the {name} pass{at}, rank {rank} holds {pairs:.3g} pairs of other ranks' K and V, with the buffers of receives "
        "that are under way. Two are enough: the pair that it computes with, and the next one. Drop a pair, and its "
        "requests, as soon as it is used and sent on."
    )


def _no_square(bench: RankBench, case: Case, rank: int, told: dict[str, Any]) -> None:
    shape = told.get("square")
    if shape:
        sequence, line = case.expected.size.sequence, told.get("square_line")
        at = f" at line {line}" if line else ""
        message = (
            f"With {case.label}: rank {rank} makes a tensor of shape {shape}{at}. Two of its dimensions are as long as the "
            f"whole sequence of {sequence}. Such a matrix does not fit for long sequences: make only blocks of this rank's "
            "queries and one shard's keys, also of the mask."
        )
        raise bench.lost(case, "too_much_memory", message, rank, f"less than {sequence} x {sequence}", str(shape))


def _sent_again(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost for a backward pass without a mask in which less is sent than it takes to learn K and V again: they were
    kept, in whatever form."""
    about, n = case.expected, case.ranks
    if about.causal:
        return
    backward = [checks.by_step(result, rank, len(PASSES))[-1] for rank in range(n)]
    mean = sum(op.size for mine in backward for op in mine if op.kind == SEND) / n
    least = 1.4 * (n - 1) * about.size.pair
    if mean < least:
        message = (
            f"With {case.label}: in the backward pass, a rank sends {mean:,.0f} bytes on average. The other ranks' K and V "
            "and their gradients are more, so K and V were kept after the forward pass. Keep nothing of other ranks."
        )
        raise bench.lost(case, "too_much_memory", message, None, f"at least {least:,.0f} bytes", f"{mean:,.0f} bytes")


# ---- time


def overlap(bench: RankBench) -> Outcome:
    """Without a mask, a pass takes as long as its computing, and at most 1.5 or 2.5 transfers more."""
    for case, result in if_right(values(bench, "overlap"), WRONG):
        n = case.ranks
        spans = [[span for span in result.trace.spans if span.rank == rank] for rank in range(n)]
        marks = [[span for span in mine if span.name == MARK and not span.line] for mine in spans]
        if not result.trace.virtual:
            raise Unable("Not judged, because overlap is measured in virtual time. Choose no engine, or sim.")
        if any(len(mine) != 3 for mine in marks):
            raise bench.lost(
                case, "sandbox_violation", f"With {case.label}: the marks of the passes were tampered with."
            )
        for number, name in enumerate(PASSES):
            took = [(mine[number + 1].since - mine[number].until) / NANOSECONDS for mine in marks]
            computed = [_computing(mine, *marks[rank][number : number + 2]) for rank, mine in enumerate(spans)]
            work = n * BLOCK * NEEDED[name] / NEEDED["forward"]
            counted = min(max(computed), WORK[name] * work)
            allowed = counted + EXPOSED[name] * TRANSFER * 1.01
            slowest = max(range(n), key=lambda rank: took[rank])
            tally.note(
                f"{name} pass", took[slowest], allowed, "s", where=case.label, reference=counted, of="computing alone"
            )
            if took[slowest] <= allowed:
                continue
            message = f"With {case.label}: {_waiting(name, slowest, took[slowest], max(computed), counted, work)}"
            limit, took_told = f"at most {allowed * 1e3:.3g} ms", f"{took[slowest] * 1e3:.3g} ms"
            raise bench.lost(case, "no_overlap", message, slowest, limit, took_told)
    return bench.picture("overlap")


def _computing(spans: list[Span], begin: Span, end: Span) -> float:
    """Seconds of matrix products between two marks."""
    inside = [span for span in spans if span.name == "mm" and begin.until <= span.since and span.until <= end.since]
    return sum(span.until - span.since for span in inside) / NANOSECONDS


def _waiting(name: str, rank: int, took: float, computed: float, counted: float, work: float) -> str:
    exposed = (took - computed) / TRANSFER
    told = (
        f"the {name} pass takes {took * 1e3:.3g} ms on rank {rank}. Its matrix products take {computed * 1e3:.3g} ms, and "
        f"one rank's K and V are {TRANSFER * 1e3:.3g} ms on their way. "
    )
    if computed > counted:
        return told + (
            f"The pass needs {NEEDED[name]} products for each shard, {work * 1e3:.3g} ms. Compute none of them twice."
        )
    shard = "the next shard" if name == "forward" else "the next shard, and the gradients that travel with it,"
    return told + (
        f"So {exposed:.3g} transfers pass while nobody computes, and at most {EXPOSED[name]:g} may. Start to send and "
        f"receive {shard} before you compute with this one, and wait only afterward."
    )
