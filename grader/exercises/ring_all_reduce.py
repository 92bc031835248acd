"""ring_all_reduce(tensor): in place, sum over ranks, point-to-point only.

Budgets are those of the bandwidth-optimal ring (Patarasuk and Yuan 2009, section 3): 2(N-1) steps of one chunk each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from grader.exercise import Bench, Case, Check, Draw, Exercise, Lost, Outcome
from grader.exercises import _sums
from grader.ranks.program import CallResult
from grader.trace.replay import rounds
from grader.verdict import Diagnosis

WORLDS = (*range(1, 10), 16)
SMALL_WORLDS = range(1, 5)  # where every shape is tried; larger worlds cost more than they tell


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check. One group a check that judges values; `budget` serves the three that count."""
    for n in WORLDS:
        yield _sums.contiguous(draw, "sum", n, (3 * n,), "float64")
    for n in WORLDS[:-1]:
        for length in sorted({0, 1, n - 1, 2 * n + 1}) if n in SMALL_WORLDS else (2 * n + 1,):
            yield _sums.contiguous(draw, "any_length", n, (length,), "int64")
    for n in SMALL_WORLDS:
        yield _sums.contiguous(draw, "any_layout", n, (3, n), "int64")
        yield _sums.every_third(draw, "any_layout", n, 2 * n, "int64")
        yield _sums.transposed(draw, "any_layout", n, (2, 2 * n), "int64")
    for n in SMALL_WORLDS:
        yield _sums.contiguous(draw, "budget", n, (6 * n,), "int64")
    yield _sums.contiguous(draw, "large", 4, (2**17 + 4,), "float64")


def _values(bench: Bench, group: str) -> Iterator[tuple[Case, CallResult]]:
    """The calls of `group`, each found right. Raises Lost at the first that is not: a budget that a wrong sum keeps
    is worth nothing."""
    for case, result in bench.calls(group):
        found = _sums.judge(case, result, bench.program.file)
        if found and group == "budget":
            found = replace(found, message=f"Not counted, because the sum is wrong. {found.message}")
        if found:
            raise Lost(found, bench.outcome(case))
        yield case, result


def _right(group: str) -> Callable[[Bench], Outcome]:
    def judge(bench: Bench) -> Outcome:
        for _ in _values(bench, group):
            pass
        return bench.picture(group)

    return judge


def _bytes(bench: Bench) -> Outcome:
    """Bytes sent by each rank: at most 2(N-1) chunks of ceil(numel/N) elements."""
    for case, result in _values(bench, "budget"):
        n, tensor = case.ranks, case.tensors[0]
        size = tensor.numel * tensor.storage.itemsize
        allowed = 2 * (n - 1) * -(-tensor.numel // n) * tensor.storage.itemsize
        sent = [result.trace.bytes_sent(rank) for rank in range(n)]
        worst = max(range(n), key=lambda rank: sent[rank])
        if sent[worst] > allowed:
            raise Lost(
                Diagnosis(
                    "too_many_bytes",
                    f"With {case.label}: the sum is right, but rank {worst} sent {sent[worst]} bytes for a tensor of "
                    f"{size} bytes; a ring all-reduce needs 2(N-1)/N x {size} = {allowed}. {_habit(sent, size, n)}",
                    rank=worst,
                    file=bench.program.file,
                    expected=f"at most {allowed} bytes",
                    got=f"{sent[worst]} bytes",
                ),
                bench.outcome(case),
            )
    return bench.picture("budget")


def _habit(sent: list[int], size: int, n: int) -> str:
    if all(count == (n - 1) * size for count in sent):
        return "That is N-1 whole tensors: pass chunks of numel/N round the ring, not the whole tensor."
    if max(sent) >= (n - 1) * size and sorted(sent)[-2] <= size:
        return "One rank gathers and sends everything: it is the bottleneck that the ring is there to avoid."
    return "Send each chunk once per step, N-1 steps to reduce and N-1 to gather."


def _steps(bench: Bench) -> Outcome:
    """Messages and rounds of each rank: at most 2(N-1)."""
    for case, result in _values(bench, "budget"):
        n = case.ranks
        allowed = 2 * (n - 1)
        messages = [result.trace.messages_sent(rank) for rank in range(n)]
        taken = rounds(result.trace)
        most, slowest = max(range(n), key=lambda r: messages[r]), max(range(n), key=lambda r: taken[r])
        if messages[most] > allowed:
            raise Lost(
                Diagnosis(
                    "too_many_messages",
                    f"With {case.label}: rank {most} sent {messages[most]} messages where 2(N-1) = {allowed} are "
                    "enough. Every message costs a latency: send one chunk a step.",
                    rank=most,
                    file=bench.program.file,
                    expected=f"at most {allowed} messages",
                    got=f"{messages[most]} messages",
                ),
                bench.outcome(case),
            )
        if taken[slowest] > allowed:
            raise Lost(
                Diagnosis(
                    "too_many_rounds",
                    f"With {case.label}: it takes {taken[slowest]:g} rounds where 2(N-1) = {allowed} are enough: "
                    f"rank {slowest} waits while others talk. In every step all ranks must send and receive at the "
                    "same time (isend, recv, then wait).",
                    rank=slowest,
                    file=bench.program.file,
                    expected=f"at most {allowed} rounds",
                    got=f"{taken[slowest]:g} rounds",
                ),
                bench.outcome(case),
            )
    return bench.picture("budget")


def _requests(bench: Bench) -> Outcome:
    """Every request is waited for, and no buffer is touched while it is being sent."""
    for case, result in _values(bench, "budget"):
        if result.diagnoses:
            raise Lost(result.diagnoses[0], bench.outcome(case))
    return bench.picture("budget")


EXERCISE = Exercise(
    name="ring_all_reduce",
    chapter="06",
    title="Ring all-reduce",
    function="ring_all_reduce",
    parameters=("tensor",),
    minutes=40,
    difficulty=2,
    p2p_only=True,
    cases=cases,
    checks=(
        Check("sum", "The sum, in place, on 1 to 9 and 16 ranks", 4, _right("sum")),
        Check("any_length", "Lengths 0, 1, N-1 and not divisible by N", 3, _right("any_length")),
        Check("any_layout", "Matrices, transposes and every third element", 2, _right("any_layout")),
        Check("bytes", "At most 2(N-1)/N of the tensor sent by each rank", 4, _bytes),
        Check("steps", "At most 2(N-1) messages and rounds", 3, _steps),
        Check("requests", "Every request waited for, no buffer touched too soon", 2, _requests),
        Check("large", "One MiB on 4 ranks", 2, _right("large")),
    ),
)
