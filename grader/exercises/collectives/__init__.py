"""Eight collectives out of point-to-point messages: values, rounds of the trees and the barrier, bytes of the others.

Round bounds are those of the one-port model (Bar-Noy and Kipnis 1992; for the barrier Hensgen, Finkel and Manber 1988),
byte bounds what must leave a rank in any case (Chan, Heimlich, Purkayastha and van de Geijn 2007).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from grader import tally
from grader.exercise import Check, Draw, Exercise
from grader.exercises.collectives.judging import Expected, barrier, case, judge, least_bytes, log2, twice
from grader.exercises.collectives.moves import ROUNDED
from grader.exercises.common import checks
from grader.lost import Lost
from grader.ranks.program import CallResult, Function
from grader.trace.replay import rounds
from grader.verdict import Diagnosis
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench, Ranks

MOVING = ("broadcast", "scatter", "gather", "all_gather", "all_to_all")
ADDING = ("reduce", "reduce_scatter")
COUNTED = ("scatter", "all_gather", "reduce_scatter", "all_to_all")  # by their bytes
WORLDS = range(1, 10)
SMALL_WORLDS = range(1, 6)  # in which every shape and dtype is tried
FIVE_SIZES = (2, 1, 1, 3, 1)  # as many as a batch of videos has
HEADER = 128  # bytes: a message that tells dtype and shape, one to each other rank
LONG = (512,)  # elements of float32: so many that all headers together are not taken for one tensor more


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check: a group for each function, and one for each of the checks that count."""
    for n in WORLDS:
        for function in (*MOVING, *ADDING):
            yield case(draw, function, function, n, n - 1, (5,), "float64")
            yield case(draw, function, function, n, n // 2, FIVE_SIZES if n == max(SMALL_WORLDS) else (2, 3), "int64")
            if n in SMALL_WORLDS:
                yield case(draw, function, function, n, 0, (0,), "int64")
                yield case(draw, function, function, n, n - 1, (0, 2), "float64")
                yield case(draw, function, function, n, n // 3, (33,), "bool" if function in MOVING else "uint8")
        yield barrier("barrier", n)
        if n == 3:
            for function in ("scatter", "gather", "all_gather", "reduce_scatter", "all_to_all"):
                yield twice(draw, function, n, 1)
    for n in WORLDS[1:-1]:
        for root in (0, n - 1):
            for function in ("broadcast", "reduce"):
                yield case(draw, "rounds", function, n, root, (16,), "float32")
        yield barrier("rounds", n)
    for n in (2, 3, 4, 5, 8):
        for function in COUNTED:
            yield case(draw, "bytes", function, n, n // 2, LONG, "float32")
    for n in SMALL_WORLDS[1:]:
        for function in (*MOVING, *ADDING):
            yield case(draw, "requests", function, n, 1, (16,), "float32")
        yield barrier("requests", n)
    for function in (*MOVING, *ADDING):
        yield case(draw, function, function, 4, 2, (2**15,), "int64", "gloo")
    yield barrier("barrier", 4, "gloo")


def _values(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult]]:
    """The calls of `group`, each found right. Raises Lost at the first that is not."""
    strict = group not in ("rounds", "bytes", "requests")
    rounded: Lost | None = None  # on one rank, where the mean is the sum: more ranks may show another cause
    try:
        for each, result in bench.calls(group):
            wrong = checks.forbidden(result) or judge(each, result, strict)
            found = checks.blamed(wrong, result, "" if strict else each.function) or _too_little(each, result)
            if found:
                lost = Lost(replace(found, file=bench.program.file), bench.outcome(each))
                if each.ranks > 1 or ROUNDED not in found.message:
                    raise lost
                rounded = rounded or lost
            else:
                yield each, result
    except Lost as lost:
        if rounded and lost.diagnosis.kind != rounded.diagnosis.kind:
            raise rounded from None
        raise
    if rounded:
        raise rounded


def _size(each: Case) -> int:
    """Bytes of one tensor or chunk."""
    return next((tensors[0].nbytes for tensors in each.expected.given.tensors if tensors), 0)


def _too_little(each: Case, result: CallResult) -> Diagnosis | None:
    """A right result that the messages cannot have brought about."""
    expected: Expected = each.expected
    size, received = _size(each), [0] * each.ranks
    for send, recv in result.trace.messages:
        received[recv.rank] += send.size
    for rank in range(each.ranks):
        least_sent, least_received = least_bytes(expected.function, each.ranks, expected.root, rank)
        sent = result.trace.bytes_sent(rank)
        for verb, moved, least in (("sent", sent, least_sent), ("received", received[rank], least_received)):
            if moved < least * size:
                what = (
                    f"With {each.label}: the result is right, but rank {rank} {verb} only {moved:,} bytes. Its data "
                    f"takes {least * size:,} bytes. Move all data with messages between the ranks."
                )
                texts = f"at least {least * size:,} bytes {verb}", f"{moved:,} bytes"
                return Diagnosis("too_few_bytes", what, rank, None, None, *texts)
    return None


def _rounds(bench: RankBench) -> Outcome:
    """Rounds of broadcast, reduce and barrier: at most ceil(log2 N)."""
    for each, result in _values(bench, "rounds"):
        taken, allowed = rounds(result.trace), log2(each.ranks)
        slowest = max(range(each.ranks), key=lambda rank: taken[rank])
        tally.note(f"rounds of {each.function}", taken[slowest], allowed, "rounds", where=each.label,
                   reference=each.ranks - 1, of="one message after another")  # fmt: skip
        if taken[slowest] > allowed:
            what = (
                f"the call does what it should, but rank {slowest} takes {taken[slowest]:g} rounds. The limit is "
                f"ceil(log2 {each.ranks}) = {allowed}. {_shape(each, result)}"
            )
            texts = (f"at most {allowed} rounds", f"{taken[slowest]:g} rounds")
            raise bench.lost(each, "too_many_rounds", f"With {each.label}: {what}", slowest, *texts)
    return bench.picture("rounds")


def _shape(each: Case, result: CallResult) -> str:
    """What the messages look like, where they are not those of a binomial tree, and what to do."""
    n, trace = each.ranks, result.trace
    sent = [trace.messages_sent(rank) for rank in range(n)]
    received = [sum(recv.rank == rank for _, recv in trace.messages) for rank in range(n)]
    if each.function == "barrier":
        advice = "In each round let every rank send one token and receive one at the same time, at distances 1, 2, 4 and so on."
        if n > 2 and sum(sent) <= 2 * (n - 1):
            return f"Collecting at one rank first and then telling the others takes two passes. {advice}"
        return advice
    busiest = max(range(n), key=lambda rank: sent[rank] + received[rank])
    if max(sent[busiest], received[busiest]) == n - 1 > 2:
        verb = "sends" if sent[busiest] == n - 1 else "receives"
        return f"Rank {busiest} {verb} {n - 1} messages, one after another. Use a tree: others then help."
    if sum(sent) > n - 1:
        return f"The ranks send {sum(sent)} messages. Use a tree: {n - 1} messages, one for each rank but the root."
    if max(sent) <= 1 and max(received) <= 1:
        return "The messages go along a chain, one in each round. Use a tree: many ranks send in the same round."
    if each.function == "reduce":
        return "In each round let half of the ranks that still hold a sum send it on. Those ranks are then done."
    return "In each round let every rank that has the tensor send it on, to the child with the largest subtree first."


def _bytes(bench: RankBench) -> Outcome:
    """Bytes sent by each rank: at most N-1 tensors or chunks, and a header to each other rank."""
    for each, result in _values(bench, "bytes"):
        size, others = _size(each), each.ranks - 1
        sent = [result.trace.bytes_sent(rank) for rank in range(each.ranks)]
        worst = max(range(each.ranks), key=lambda rank: sent[rank])
        tally.note("bytes a rank sends", sent[worst], others * (size + HEADER), "bytes", where=each.label)
        if sent[worst] > others * (size + HEADER):
            what = (
                f"the result is right, but rank {worst} sent {sent[worst]:,} bytes. N-1 times {size:,} = {others * size:,} "
                f"bytes are enough, and headers of up to {HEADER:,} bytes are free. {_waste(each, sent, worst, size)}"
            )
            texts = (f"at most {others * size:,} bytes", f"{sent[worst]:,} bytes")
            raise bench.lost(each, "too_many_bytes", f"With {each.label}: {what}", worst, *texts)
    return bench.picture("bytes")


def _waste(each: Case, sent: list[int], worst: int, size: int) -> str:
    n = each.ranks
    over = max(sent) / (n - 1) - size
    if HEADER < over < 2 * HEADER:
        return f"That is {over:,g} bytes more for each other rank. If those are a header, make it smaller."
    if each.function == "scatter":
        only = "Send each rank only its own chunk, in its own dtype."
        return f"That is {over:,g} bytes more for each other rank. {only}" if over < size else only
    if max(sent) >= 2 * sorted(sent)[-2]:
        return f"Rank {worst} sends at least twice as much as any other rank. Let every rank do the same work."
    if each.function == "all_gather":
        return "Use a ring: in each of N-1 steps every rank passes one tensor on to the next rank."
    if min(sent) >= (n - 1) * n * size:
        return "So many bytes could carry the whole list to every other rank. Send each rank only its chunk."
    return "Let each rank send N-1 chunks: each chunk for another rank once, as it is or as part of a sum."


right = partial(checks.right, _values)
WAITED = checks.waited(_values, "requests")

EXERCISE = Exercise(
    name="collectives",
    chapter="06",
    title="Collectives from messages",
    minutes=75,
    difficulty=2,
    cost="seconds",
    world=Ranks(
        (
            Function("broadcast", ("tensor", "src")),
            Function("reduce", ("tensor", "dst")),
            Function("scatter", ("chunks", "src")),
            Function("gather", ("tensor", "dst")),
            Function("all_gather", ("tensor",)),
            Function("reduce_scatter", ("chunks",)),
            Function("all_to_all", ("chunks",)),
            Function("barrier", ()),
        ),
        cases,
        p2p_only=True,
    ),
    checks=(
        Check("broadcast", "broadcast: the root's tensor on 1 to 9 ranks, any root and dtype", 3, right("broadcast")),
        Check("reduce", "reduce: the sum on the root, the others' tensors untouched", 3, right("reduce")),
        Check(
            "scatter", "scatter: to each rank its chunk, shape and dtype known to the root only", 2, right("scatter")
        ),
        Check("gather", "gather: all tensors in rank order on the root, None elsewhere", 2, right("gather")),
        Check("all_gather", "all_gather: all tensors in rank order on every rank", 2, right("all_gather")),
        Check("reduce_scatter", "reduce_scatter: to each rank the sum of its chunks", 3, right("reduce_scatter")),
        Check("all_to_all", "all_to_all: from each rank the chunk for this one", 2, right("all_to_all")),
        Check("barrier", "barrier: no rank leaves before the last has come", 2, right("barrier")),
        Check("rounds", "broadcast, reduce and barrier in at most ceil(log2 N) rounds", 2, _rounds),
        Check("bytes", "At most N-1 tensors or chunks sent by each rank", 2, _bytes),
        Check("requests", "Every request waited for, no buffer touched too soon", 1, WAITED),
    ),
)
