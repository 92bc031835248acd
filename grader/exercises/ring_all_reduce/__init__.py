"""ring_all_reduce(tensor): in place, sum over ranks, point-to-point only.

Budgets are those of the bandwidth-optimal ring (Patarasuk and Yuan 2009, section 3): 2(N-1) steps of one chunk each.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from grader import tally
from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks, sums
from grader.lost import Lost, Unable
from grader.ranks.network import Network
from grader.ranks.program import CallResult, Function
from grader.trace.events import SEND
from grader.trace.replay import rounds
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench, Ranks

WORLDS = (*range(1, 10), 16)
SMALL_WORLDS = range(1, 6)  # in which every shape is tried
TWIN_WORLDS = (6, 7)  # and 5: one of them has all the twins (see worlds.twins), so that all are called in one world
LARGE_WORLD = 64
LINK = Network(alpha=10e-6, beta=1e-9)  # 10 us and 1 GB/s: a chunk's transfer and its latency weigh about the same


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check. One group a check that judges values; `budget` serves the three that count."""
    for n in WORLDS:
        yield sums.contiguous(draw, "sum", n, (3 * n,), "float64")
        yield sums.contiguous(draw, "budget", n, (6 * n,), "int64")
    for n in WORLDS[:-1]:
        # from short to long: a buffer kept from an earlier call must not be long enough by luck
        for length in sorted({0, 1, n - 1, 2 * n + 1}) if n in SMALL_WORLDS else (2 * n + 1,):
            yield sums.contiguous(draw, "any_length", n, (length,), "int64")
        yield sums.every_third(draw, "any_layout", n, 2 * n, "int64")
    for n in SMALL_WORLDS:
        yield sums.contiguous(draw, "any_layout", n, (3, n), "int64")
        yield sums.transposed(draw, "any_layout", n, (2, 2 * n), "int64")
        yield sums.inside(draw, "any_layout", n, 2 * n, "int64")
        if n == 4:
            yield sums.columns(draw, "any_layout", n, (3, n), "int64")
        for shape in ((6 * n + 1,), (2, 6 * n)):
            yield sums.contiguous(draw, "odd_budget", n, shape, "int64")
        if n > 3:  # a chunk that takes all of the rest is too long, and so is the whole of a short tensor
            for length in (n - 1, 7 * n - 1):
                yield sums.contiguous(draw, "odd_budget", n, (length,), "int64")
    for n in TWIN_WORLDS:
        yield sums.contiguous(draw, "odd_budget", n, (6 * n + 1,), "int64")
    yield sums.contiguous(draw, "odd_budget", 4, (2**16,), "int64")
    yield sums.contiguous(draw, "sum", LARGE_WORLD, (LARGE_WORLD,), "float64")
    yield replace(sums.contiguous(draw, "time", 16, (16 * 1000,), "int64"), network=LINK)
    yield replace(sums.contiguous(draw, "large", 4, (2**17 + 4,), "float64"), engine="gloo")


def _values(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult]]:
    """The calls of `group`, each found right. Raises Lost at the first that is not: a budget that a wrong sum keeps
    is worth nothing."""
    for case, result in bench.calls(group):
        look, why = sums.seen(bench, case, result), sums.too_early(bench, case)
        wrong = checks.forbidden(result) or sums.judge(case, result, bench.program.file, look, why)
        if found := checks.blamed(wrong, result, counted="the sum" if group in ("budget", "time") else ""):
            raise Lost(found, bench.outcome(case))
        yield case, result


def _counted(bench: RankBench) -> Iterator[tuple[Case, CallResult]]:
    """The calls whose messages are counted."""
    yield from _values(bench, "budget")
    yield from sums.odd(bench, "odd_budget")


def _bytes(bench: RankBench) -> Outcome:
    """Bytes sent by each rank: at most 2(N-1) chunks of ceil(numel/N) elements."""
    for case, result in _counted(bench):
        n, tensor = case.ranks, case.tensors[0]
        size = tensor.numel * tensor.storage.itemsize
        allowed = 2 * (n - 1) * -(-tensor.numel // n) * tensor.storage.itemsize
        sent = [result.trace.bytes_sent(rank) for rank in range(n)]
        _enough_bytes(bench, case, result)
        worst = max(range(n), key=lambda rank: sent[rank])
        if sent[worst] > allowed:
            _even_chunks(bench, case, result, worst, allowed)
        if sent[worst] > allowed:
            what = (
                f"With {case.label}: the sum is right, but rank {worst} sent {sent[worst]:,} bytes for a tensor of "
                f"{size:,} bytes. A ring all-reduce sends 2(N-1) chunks of {allowed // (2 * (n - 1)):,} bytes, {allowed:,} bytes. "
                f"{_habit(case, result, worst)}"
            )
            texts = f"at most {allowed:,} bytes", f"{sent[worst]:,} bytes"
            raise bench.lost(case, "too_many_bytes", what, worst, *texts)
        if case.group == "budget":
            tally.note("bytes a rank sends", sent[worst], allowed, "bytes", where=case.label)
    return bench.picture("budget")


def _even_chunks(bench: RankBench, case: Case, result: CallResult, rank: int, allowed: int) -> None:
    """Raise Lost where a rank sends too much, and a message of it is longer than the longest of N even chunks."""
    tensor, sent = case.tensors[0], result.trace.bytes_sent(rank)
    chunk = -(-tensor.numel // case.ranks) * tensor.storage.itemsize
    longest = max(op.size for op in result.trace.operations(rank) if op.kind == SEND)
    divides = tensor.numel % case.ranks == 0
    if chunk < longest <= (chunk + tensor.storage.itemsize if divides else 2 * chunk):
        how = (
            f"{tensor.numel} elements divide by {case.ranks}: cut {case.ranks} equal chunks, without padding."
            if divides
            else f"{tensor.numel:,} elements do not divide by {case.ranks}: cut chunks whose lengths differ by at most one "
            "element."
        )
        what = (
            f"With {case.label}: the sum is right, but rank {rank} sent {sent:,} bytes. At most 2(N-1) chunks of {chunk:,} "
            f"bytes are allowed, {allowed:,} bytes. Its longest message has {longest:,} bytes. {how}"
        )
        raise bench.lost(case, "too_many_bytes", what, rank, f"at most {allowed:,} bytes", f"{sent:,} bytes")


def _enough_bytes(bench: RankBench, case: Case, result: CallResult) -> None:
    """What a rank brings must leave it: at least its tensor's own bytes. Raises Lost."""
    size = case.tensors[0].numel * case.tensors[0].storage.itemsize
    sent = [result.trace.bytes_sent(rank) for rank in range(case.ranks)]
    least = min(range(case.ranks), key=lambda rank: sent[rank])
    if case.ranks > 1 and sent[least] < size:
        what = (
            f"With {case.label}: the sum is right, but rank {least} sent only {sent[least]:,} bytes. Its own {size:,} "
            "bytes must have reached the others some other way than by messages between ranks."
        )
        raise bench.lost(case, "too_few_bytes", what, least, f"at least {size:,} bytes", f"{sent[least]:,} bytes")


def _habit(case: Case, result: CallResult, worst: int) -> str:
    n, tensor = case.ranks, case.tensors[0]
    size = tensor.numel * tensor.storage.itemsize
    sent = [result.trace.bytes_sent(rank) for rank in range(n)]
    messages = [op.size for op in result.trace.operations(worst) if op.kind == SEND]
    row = size // tensor.shape[0]
    if len(tensor.shape) > 1 and size // n < max(messages) < size and not any(message % row for message in messages):
        return (
            f"All messages of rank {worst} are whole rows of {row:,} bytes, and a chunk has {size // n:,}. Cut the flat tensor, "
            "tensor.contiguous().view(-1), into N chunks, not the matrix into rows."
        )
    if all(count == (n - 1) * size for count in sent):
        return "Every rank sent N-1 whole tensors. Pass chunks of numel/N round the ring instead."
    if min(messages) >= size:
        met = {(op.receives, op.peer) for op in result.trace.operations(worst) if op.size >= size}
        if len(met) == 2 * (n - 1):  # from and to every other rank
            return (
                f"Rank {worst} receives the whole tensors of the other ranks and sends the whole sum back, so it is the "
                "bottleneck. Pass chunks of numel/N round the ring instead."
            )
        return f"All messages of rank {worst} are whole tensors. Pass chunks of numel/N round the ring instead."
    return "Send each chunk once per step, N-1 steps to reduce and N-1 to gather."


def _steps(bench: RankBench) -> Outcome:
    """Messages and rounds of each rank: at most 2(N-1)."""
    for case, result in _counted(bench):
        n = case.ranks
        allowed = 2 * (n - 1)
        messages = [result.trace.messages_sent(rank) for rank in range(n)]
        taken = rounds(result.trace)
        most, slowest = max(range(n), key=lambda r: messages[r]), max(range(n), key=lambda r: taken[r])
        if messages[most] > allowed:
            what = (
                f"With {case.label}: rank {most} sent {messages[most]} messages where 2(N-1) = {allowed} are "
                "enough. Every message costs a latency: send one chunk a step."
            )
            texts = f"at most {allowed} messages", f"{messages[most]} messages"
            raise bench.lost(case, "too_many_messages", what, most, *texts)
        if taken[slowest] > allowed:
            what = (
                f"With {case.label}: it takes {taken[slowest]:g} rounds where 2(N-1) = {allowed} are enough: "
                f"rank {slowest} waits while others talk. In every step all ranks must send and receive at the "
                "same time (isend, recv, then wait)."
            )
            texts = f"at most {allowed} rounds", f"{taken[slowest]:g} rounds"
            raise bench.lost(case, "too_many_rounds", what, slowest, *texts)
        if case.group == "budget":
            tally.note("messages a rank sends", messages[most], allowed, "messages", where=case.label)
            tally.note("rounds", taken[slowest], allowed, "rounds", where=case.label)
    with contextlib.suppress(Unable):  # what cannot be simulated has no virtual time; its rounds were counted
        _time(bench)
    return bench.picture("budget")


def _time(bench: RankBench) -> None:
    """Virtual time: at most 1.05 times that of an ideal ring on the same links."""
    for case, result in _values(bench, "time"):
        n, tensor = case.ranks, case.tensors[0]
        size = tensor.numel * tensor.storage.itemsize
        ideal = 2 * (n - 1) * (LINK.alpha + size / n * LINK.beta)
        slowest = max(range(n), key=lambda rank: result.finish[rank])
        took = f"{result.finish[slowest] * 1e3:.3f} ms"
        if max(result.trace.bytes_sent(rank) for rank in range(n)) > 2 * (n - 1) * size // n:
            return  # too many bytes take too long: the check `bytes` says so
        if result.finish[slowest] < 0.99 * 2 * (n - 1) / n * size * LINK.beta:
            what = (
                f"With {case.label}: it took {took} of virtual time, in which the links can not have carried what every "
                "rank needs. Clocks and links are not to be touched."
            )
            raise bench.lost(case, "sandbox_violation", what)
        if result.finish[slowest] > 1.05 * ideal:
            what = (
                f"With {case.label}, 10 us and 1 GB/s a link: it takes {took} of virtual time, an ideal ring "
                f"2(N-1)(alpha + S/N beta) = {ideal * 1e3:.3f} ms."
            )
            raise bench.lost(case, "too_slow", what, slowest, f"at most {1.05 * ideal * 1e3:.3f} ms", took)
        where, finish = f"{case.label}, 10 us and 1 GB/s a link", result.finish[slowest]
        tally.note("virtual time", finish, 1.05 * ideal, "s", where=where, reference=ideal, of="an ideal ring")


def _large(bench: RankBench) -> Outcome:
    """Right on real processes too, and by messages."""
    for case, result in _values(bench, "large"):
        _enough_bytes(bench, case, result)
    return bench.picture("large")


EXERCISE = Exercise(
    name="ring_all_reduce",
    chapter="06",
    title="Ring all-reduce",
    minutes=40,
    difficulty=2,
    cost="seconds",
    world=Ranks((Function("ring_all_reduce", ("tensor",)),), cases, p2p_only=True),
    checks=(
        Check("sum", "The sum, in place, on 1 to 9, 16 and 64 ranks", 4, checks.right(_values, "sum")),
        Check("any_length", "Lengths 0, 1, N-1 and not divisible by N", 3, checks.right(_values, "any_length")),
        Check("any_layout", "Matrices, transposes and every third element", 2, checks.right(_values, "any_layout")),
        Check("bytes", "At most 2(N-1)/N of the tensor sent by each rank", 4, _bytes),
        Check("steps", "At most 2(N-1) messages and rounds, at an ideal ring's speed", 3, _steps),
        Check("requests", "Every request waited for, no buffer touched too soon", 2, checks.waited(_values, "budget")),
        Check("large", "One MiB on 4 ranks, real gloo processes unless --engine says sim", 2, _large),
    ),
)
