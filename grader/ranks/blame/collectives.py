"""Collectives that are not the same everywhere: another call, root, data type, reduction or size."""

from __future__ import annotations

from grader.ranks.blame.source import Source
from grader.says import in_bytes
from grader.trace.events import Operation, Trace
from grader.verdict import Diagnosis

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
