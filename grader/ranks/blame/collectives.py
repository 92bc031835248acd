"""Collectives that are not the same everywhere: another call, root, data type, reduction or size."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from grader.ranks.blame.source import Source
from grader.says import in_bytes
from grader.trace.events import Operation, Trace
from grader.verdict import Diagnosis

Made = tuple[tuple[int, ...], int]  # the ranks of a group, and the line at which new_group was called
UNEVEN = ("all_to_all", "all_to_all_single", "barrier", "monitored_barrier", "new_group")


def disagree(one: Operation, other: Operation) -> str:
    """In what two ranks' parts of one collective differ, in a word; empty where they agree."""
    if one.kind != other.kind:
        return "call"
    if one.peer != other.peer:
        return "root"
    if one.dtype != other.dtype:
        return "data type"
    if one.reduction != other.reduction:
        return "reduction"
    return "size" if one.size != other.size and one.name not in UNEVEN else ""


def mismatched(trace: Trace, source: Source) -> Diagnosis | None:
    """The sentence for the first collective in which the ranks do not agree; None if there is none."""
    counted: dict[int, int] = {}
    for found in trace.collectives:
        first = found[0]
        place = counted[first.tag] = counted.get(first.tag, 0) + 1
        for other in found[1:]:
            what = disagree(first, other)
            if what:
                return _sentence(first, other, what, place, trace, source)
    return None


def made_apart(made: Sequence[Sequence[Made]], returned: Container[int], source: Source) -> Iterator[Diagnosis]:
    """The sentence for the first call of new_group that is not the same on all ranks. `made` is what each rank has made
    up to now, and a rank that has `returned` makes no more."""
    for place in range(max(map(len, made), default=0)):
        first = next(rank for rank, mine in enumerate(made) if len(mine) > place)
        ranks, line = made[first][place]
        for rank, mine in enumerate(made):
            if len(mine) > place and mine[place][0] != ranks:
                got = _ranks(mine[place][0])
                what = (
                    f"Call number {place + 1} of new_group is not the same on all ranks: rank {first} called it with "
                    f"{_ranks(ranks)}{source.quote(line)}, but rank {rank} with {got}{source.quote(mine[place][1])}."
                )
                why = "these two groups have one name, and their messages mix"
            elif len(mine) <= place and rank in returned:
                got = "no call"
                what = (
                    f"Rank {first} called new_group with {_ranks(ranks)}{source.quote(line)}, but rank {rank} did not."
                )
                why = f"a later group with rank {rank} has one name there and another name on rank {first}"
            else:
                continue
            text = (
                f"{what} Every rank must call new_group for every group, in the same order, also for groups that it is "
                f"not in. torch counts these calls to name groups: {why}."
            )
            yield source.found("mismatched_collective", text, first, line or None, _ranks(ranks), got)
            return


def _ranks(ranks: Sequence[int]) -> str:
    return f"ranks {', '.join(map(str, ranks))}"


def _sentence(a: Operation, b: Operation, what: str, place: int, trace: Trace, source: Source) -> Diagnosis:
    mine, theirs = _told(a, what), _told(b, what)
    ranks = trace.groups.get(a.tag, ())
    within = "" if len(ranks) == trace.ranks else f" in the group of ranks {', '.join(map(str, ranks))}"
    alike = {
        "call": "",
        "root": ", with the same root",
        "data type": ", with tensors of the same dtype",
        "reduction": ", with the same reduction",
        "size": ", with tensors of the same size",
    }[what]
    advice = f"Every rank must make the same collective calls in the same order{alike}."
    text = (
        f"Collective number {place}{within} is not the same on all ranks: rank {a.rank} {mine}{source.quote(a.line)}, "
        f"but rank {b.rank} {theirs}{source.quote(b.line)}. {advice}"
    )
    return source.found(
        "mismatched_collective", text, a.rank, a.line or None, f"what rank {a.rank} {mine}", f"rank {b.rank} {theirs}"
    )


def _told(op: Operation, what: str) -> str:
    return {
        "call": f"called {op.name}",
        "root": f"called {op.name} with rank {op.peer} as the root",
        "data type": f"called {op.name} with a tensor of {op.dtype}",
        "reduction": f"called {op.name} with {op.reduction}",
        "size": f"called {op.name} with {in_bytes(op.size)}",
    }[what]
