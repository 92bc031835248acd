"""What each of the eight collectives must leave on every rank, and whether a call left it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grader import says
from grader.exercise import Draw
from grader.exercises.collectives import moves
from grader.exercises.collectives.moves import Given, Wrong, heard
from grader.exercises.common.sums import Array, signs, whole
from grader.ranks.program import CallResult, Strided
from grader.trace.events import RECV_ANY, SEND, Trace
from grader.verdict import Diagnosis, Kind
from grader.worlds.cases import Case

ROOTED = {"broadcast": "from", "reduce": "to", "scatter": "from", "gather": "to"}
CHUNKED = ("scatter", "reduce_scatter", "all_to_all")
ANYTHING = object()


@dataclass(frozen=True)
class Expected:
    """What a case's judge must know.

    `root` is None where there is none. `after[rank]` is what the rank's tensor must hold after the call (None for
    functions that take chunks), `returned[rank]` an array, a list of arrays, None or ANYTHING.
    """

    function: str
    given: Given
    root: int | None
    after: tuple[Array, ...] | None
    returned: tuple[Any, ...]


def case(
    draw: Draw, group: str, function: str, n: int, root: int, shape: tuple[int, ...], dtype: str, engine: str = "sim"
) -> Case:
    """One call of one of the seven functions that move tensors; `root` is used where the function has one."""
    where = f" {ROOTED[function]} rank {root}" if function in ROOTED else ""
    size = " x ".join(map(str, shape))
    label = (
        f"{function} on {says.counted(n, 'rank')}{where}, {'chunks of ' if function in CHUNKED else ''}{size} {dtype}"
    )
    each = n if function in CHUNKED else 1
    tensors = [tuple(_drawn(draw, label, rank, index, n, shape, dtype) for index in range(each)) for rank in range(n)]
    if function == "scatter":
        tensors = [chunks if rank == root else () for rank, chunks in enumerate(tensors)]
    expected = right(function, Given(tuple(tensors), function in CHUNKED), root)
    more = (root,) if function in ROOTED else ()
    arguments = tuple((_argument(function, arrays), *more) for arrays in tensors)
    return Case(group, label, arguments, function, engine, expected=expected)


def _drawn(draw: Draw, label: str, rank: int, index: int, n: int, shape: tuple[int, ...], dtype: str) -> Array:
    """Fresh values of tensor or chunk `index` of one of `n` ranks."""
    own = draw.generator(f"{label}/{rank}/{index}")
    if dtype == "int64":
        return whole(own, signs(draw, f"{label}/{index}", math.prod(shape)), n).reshape(shape)
    return moves.values(own, shape, dtype)


def _argument(function: str, arrays: Sequence[Array]) -> Any:
    if function not in CHUNKED:
        return Strided.of(arrays[0])
    return [Strided.of(array) for array in arrays] or None


def twice(draw: Draw, function: str, n: int, root: int) -> Case:
    """Two calls, of which the second has the opposite values: what the first returned must still be there."""
    first = case(draw, function, function, n, root, (6,), "float64")
    arguments = tuple((*given, _opposite(given[0])) for given in first.arguments)
    return replace(first, label=f"{first.label}, and a second call", arguments=arguments, by="again", telling=False)


def _opposite(argument: Any) -> Any:
    if isinstance(argument, Strided):
        return replace(argument, storage=-argument.storage)
    return argument and [_opposite(chunk) for chunk in argument]


def barrier(group: str, n: int, engine: str = "sim") -> Case:
    """One call of barrier()."""
    expected = Expected("barrier", Given((), False), None, None, (ANYTHING,) * n)
    return Case(group, f"barrier on {says.counted(n, 'rank')}", ((),) * n, "barrier", engine, expected=expected)


def right(function: str, given: Given, root: int) -> Expected:
    """What is right after `function` was called with what was `given`."""
    n = given.ranks
    after: Any = None if function in CHUNKED else [tensors[0] for tensors in given.tensors]
    returned: list[Any] = [ANYTHING] * n
    match function:
        case "broadcast":
            after = [after[root]] * n
        case "reduce":
            after[root] = given.total(0)
        case "scatter":
            returned = list(given.tensors[root])
        case "gather":
            returned = [list(after) if rank == root else None for rank in range(n)]
        case "all_gather":
            returned = [list(after)] * n
        case "reduce_scatter":
            returned = [given.total(rank) for rank in range(n)]
        case "all_to_all":
            returned = [[chunks[rank] for chunks in given.tensors] for rank in range(n)]
    return Expected(
        function, given, root if function in ROOTED else None, None if after is None else tuple(after), tuple(returned)
    )


def judge(case: Case, result: CallResult, strict: bool) -> Diagnosis | None:
    """None if the call did what it should.

    Only where `strict`: arguments that are not to change have not, and who has nothing to return, returned None.
    """
    if case.by:
        return _judge_twice(case, result, strict)
    expected: Expected = case.expected
    for rank in range(case.ranks):
        wrong = _wrong_result(expected, result, rank, strict)
        if wrong:
            return _diagnosis(case, rank, f"on rank {rank}, {wrong.what}.{_habit(expected, result)}", wrong)
    for rank in range(case.ranks) if strict else ():
        wrong = _changed(expected, result, rank)
        if wrong:
            what = f"on rank {rank}, the call changed an argument, which it must not. {wrong.what}. Work in a copy."
            return _diagnosis(case, rank, what, wrong)
    return _leak(case, result) if expected.function == "barrier" else None


def _judge_twice(case: Case, result: CallResult, strict: bool) -> Diagnosis | None:
    """The same of what the first of two calls returned, as it was at once, and as it is after the second."""
    told = [returned if isinstance(returned, dict) else {} for returned in result.returned]
    for when, why in (
        ("at_once", ""),
        (
            "later",
            " It was right at first, and the second call changed it. Return tensors that no later call writes to.",
        ),
    ):
        one = replace(result, returned=tuple(each.get(when) for each in told))
        if found := judge(replace(case, by=""), one, strict):
            return replace(found, message=found.message + why)
    return None


def _wrong_result(expected: Expected, result: CallResult, rank: int, strict: bool) -> Wrong | None:
    given, wanted, value = expected.given, expected.returned[rank], result.returned[rank]
    if expected.function == "broadcast" or (expected.function == "reduce" and rank == expected.root):
        assert expected.after is not None
        return moves.compare("the tensor", result.arguments[rank][0], expected.after[rank], given, rank)
    if wanted is ANYTHING:
        return None
    if wanted is None:
        if value is None or not strict:
            return None
        kind = moves.type_name(value)
        what = f"the call returned {kind}. Return the list on rank {expected.root} only, and None on all other ranks"
        return Wrong(what, "None", kind)
    if isinstance(wanted, list):
        return moves.compare_list(value, wanted, given, rank)
    return moves.compare("the returned value", value, wanted, given, rank)


def _habit(expected: Expected, result: CallResult) -> str:
    """The mistake behind a wrong result, where all ranks together show it; begins with a space."""
    given, root, ranks = expected.given, expected.root, range(expected.given.ranks)
    if root and expected.function != "scatter":
        mistaken = right(expected.function, given, 0)
        if not any(_wrong_result(mistaken, result, rank, strict=False) for rank in ranks):
            return f" All results would be right if the root were rank 0. Use the root that was passed in: rank {root}."
    if expected.function == "broadcast" and root is not None:
        unchanged = [r for r in ranks if r != root and not _differs(result.arguments[r][0], given.tensors[r][0])]
        places = {(rank - root) % len(ranks) for rank in unchanged}
        if len(places) == len(ranks) - 1 and any(result.trace.messages_sent(rank) for rank in ranks):
            return " All ranks but the root still have their old tensor. Write into the tensor that was passed in."
        reached = 1 << (len(ranks).bit_length() - 1)
        if places and places == set(range(reached, len(ranks))):
            return (
                f" Of {len(ranks)} ranks, counted from the root, {says.counted(len(places), 'rank')} at the end did not get the "
                "tensor. N is no power of two here: add one more round, in which some ranks have nobody to send to."
            )
    if _from_any(result) and any(_in_another_order(result.returned[rank], expected.returned[rank]) for rank in ranks):
        return " A receive from any source takes what arrives first. Name the source, or use what recv returns."
    return ""


def _in_another_order(value: Any, wanted: Any) -> bool:
    """Whether a list has all the tensors that it should, but not in their places."""
    return isinstance(wanted, list) and isinstance(value, list) and moves.permuted(value, wanted)


def _from_any(result: CallResult) -> bool:
    return any(op.kind == RECV_ANY for op in result.trace.all_operations())


def _differs(value: Any, array: Array) -> bool:
    return not isinstance(value, Strided) or value.shape != array.shape or not np.array_equal(value.view(), array)


def _changed(expected: Expected, result: CallResult, rank: int) -> Wrong | None:
    """What is wrong with the rank's argument if it was to stay as it was."""
    function, given = expected.function, expected.given
    if function in ("broadcast", "barrier") or (function == "reduce" and rank == expected.root):
        return None
    before, value = given.tensors[rank], result.arguments[rank][0]
    if function not in CHUNKED:
        return moves.compare("The tensor now", value, before[0], given, rank)
    if not before:  # scatter, not the root
        return None
    if not isinstance(value, list) or len(value) != len(before):
        return Wrong("The list of chunks now has another length", f"{len(before)} chunks", moves.type_name(value))
    found = (
        moves.compare(f"Chunk {index} now", chunk, array, given, rank)
        for index, (chunk, array) in enumerate(zip(value, before, strict=True))
    )
    return next(filter(None, found), None)


def _leak(case: Case, result: CallResult) -> Diagnosis | None:
    """Whether a rank can leave the barrier before another has come."""
    n, known = case.ranks, heard(result.trace)
    leaks = [(rank, other) for rank in range(n) for other in range(n) if other not in known[rank]]
    if not leaks:
        return None
    rank, other = leaks[0]
    counts = {len(ranks) for ranks in known}
    if not any(result.trace.messages_sent(r) for r in range(n)):
        why = "No rank sends a message. Let messages tell every rank that all ranks have arrived."
    elif not any(op.receives for op in result.trace.operations(rank)):
        why = f"Rank {rank} receives no message, and a finished send tells it nothing about the others. Let it receive."
    elif _from_any(result):
        why = "A receive from any source may take the token of another round. Name the source, or tag every round."
    elif len({r for r, _ in leaks}) == 1:
        why = f"All other ranks wait for everybody. Let rank {rank} wait, too."
    elif len({r for _, r in leaks}) == 1:
        why = f"Let {says.names([r for r, _ in leaks])} wait for rank {other}, too."
    elif len(counts) == 1 and any(_sends_ahead(result.trace, r) for r in range(n)):
        why = (
            f"Every rank has heard from {counts.pop() - 1} of the {n - 1} others when it leaves. Send the token of a round "
            "only after the token of the round before has arrived: then it also tells what its sender has heard."
        )
    elif len(counts) == 1:
        why = (
            f"Every rank has heard from {counts.pop() - 1} of the {n - 1} others when it leaves. Dissemination over "
            f"{n} ranks takes {log2(n)} rounds, at distances 1, 2, 4 and so on."
        )
    else:
        why = "Let a rank leave only when messages have told it, directly or through others, that all have arrived."
    what = (
        f"rank {rank} can leave before rank {other} has arrived. No chain of messages leads from rank {other} to rank "
        f"{rank}. {why}"
    )
    return _diagnosis(case, rank, what, Wrong("", f"a chain of messages from rank {other} to rank {rank}", "none"))


def _sends_ahead(trace: Trace, rank: int) -> bool:
    """Whether a rank sends the token of a round before that of the round before has come."""
    ahead = 0
    for step in trace.steps[rank]:
        ahead += step.what == "post" and step.operation.kind == SEND
        ahead -= step.what == "wait" and step.operation.receives
        if ahead > 1:
            return True
    return False


def _diagnosis(case: Case, rank: int, what: str, wrong: Wrong, kind: Kind = "wrong_result") -> Diagnosis:
    return Diagnosis(kind, f"With {case.label}: {what}", rank=rank, expected=wrong.expected, got=wrong.got)


def log2(n: int) -> int:
    """ceil(log2 n)."""
    return (n - 1).bit_length()


def least_bytes(function: str, n: int, root: int | None, rank: int) -> tuple[int, int]:
    """What `rank` must send and receive at the least, in tensors or chunks: in other ways nothing can get about."""
    others, is_root = n - 1, rank == root
    if not others:
        return 0, 0
    match function:
        case "broadcast":
            return (1, 0) if is_root else (0, 1)
        case "reduce":
            return (0, 1) if is_root else (1, 0)
        case "scatter":
            return (others, 0) if is_root else (0, 1)
        case "gather":
            return (0, others) if is_root else (1, 0)
        case "all_gather":
            return 1, others
        case "reduce_scatter":
            return others, 1
        case "all_to_all":
            return others, others
    return 0, 0
