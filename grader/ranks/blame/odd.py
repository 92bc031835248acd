"""One step further than "rank 0 returned, and rank 2 waits": whose call is the odd one out, where the run shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grader.ranks.blame.source import Source
from grader.says import in_bytes, names
from grader.trace.events import RECV_ANY, SEND, Operation, Trace, match


@dataclass(frozen=True)
class Odd:
    """The rank whose call does not fit, its line (0: none of its calls), and a sentence that says why."""

    rank: int
    line: int
    told: str


def odd_one(op: Operation, gone: int, trace: Trace, source: Source) -> Odd | None:
    """The call that does not fit, where `op` waits for rank `gone`, which has returned; None where no call is odd."""
    if op.collective:
        return _without_its_group(op, trace, source) or _counted(op, gone, trace, source)
    return (
        _by_place_in_group(op, trace, source) or _counted(op, gone, trace, source) or _astray(op, gone, trace, source)
    )


def _without_its_group(op: Operation, trace: Trace, source: Source) -> Odd | None:
    """A collective of the world that exactly the ranks of a group have joined."""
    joined = next((found for found in trace.collectives if op in found), [])
    callers = {part.rank for part in joined}
    if op.tag or len(callers) == trace.ranks:
        return None
    for number, ranks in sorted(trace.groups.items()):
        if number and set(ranks) == callers:
            makers = [each for each in trace.operations(op.rank) if each.tag == number and each.name == "new_group"]
            place = source.quote(makers[0].line) if makers else ""
            told = (
                f"Exactly {names(sorted(callers))} made this call, and they are a group of their own{place}, but the "
            )
            return Odd(
                op.rank, op.line, f"{told}call is one of all {trace.ranks} ranks. Pass that group to it as group=."
            )
    return None


def _counted(op: Operation, gone: int, trace: Trace, source: Source) -> Odd | None:
    """One rank came to this line more or less often than all others, which came to it equally often."""
    members = trace.groups.get(op.tag, range(trace.ranks)) if op.collective else range(trace.ranks)
    times = {rank: sum(each.line == op.line for each in trace.operations(rank)) for rank in members}
    for rank in (op.rank, gone):
        usual = {count for other, count in times.items() if other != rank}
        if rank in times and len(times) > 2 and len(usual) == 1 and times[rank] not in usual:
            (others,) = usual
            if others or op.collective:  # that one rank alone sends from a line is nothing odd
                return Odd(rank, op.line, f"{_made(rank, times[rank])}, and every other rank {_times(others)}.")
    if op.collective and len(times) == 2 and times[op.rank] != times.get(gone, 0):
        told = f"{_made(op.rank, times[op.rank])}, and rank {gone} {_times(times.get(gone, 0))}."
        return Odd(gone, op.line, told)
    return None


def _made(rank: int, times: int) -> str:
    return f"Rank {rank} made this call {_times(times)}" if times else f"Rank {rank} never made this call"


def _by_place_in_group(op: Operation, trace: Trace, source: Source) -> Odd | None:
    """A message that would be received if its rank's number were one within a group."""
    if op.kind == RECV_ANY:
        return None
    for number, ranks in sorted(trace.groups.items()):
        if not number or op.rank not in ranks or op.peer >= len(ranks) or ranks[op.peer] == op.peer:
            continue
        meant = ranks[op.peer]
        for other in _unmet(trace):
            places = {other.peer, ranks[other.peer] if 0 <= other.peer < len(ranks) else -1}
            if other.rank != meant or op.rank not in places or (other.kind == SEND) == (op.kind == SEND):
                continue
            name = "dst" if op.kind == SEND else "src"
            both = f"Rank {op.rank} {_way(op)}{source.quote(op.line)}, and rank {meant} {_way(other)}"
            why = f"Within the group of {names(ranks)}, rank {meant} has the number {op.peer}, but {name} is a rank of"
            fix = f"the whole world. Pass {name}=dist.get_global_rank(group, {op.peer})."
            return Odd(op.rank, op.line, f"{both}{source.quote(other.line)}. {why} {fix}")
    return None


def _astray(op: Operation, gone: int, trace: Trace, source: Source) -> Odd | None:
    """What the rank that has left sent or was to receive, and nobody took or sent."""
    for other in _unmet(trace):
        if other.rank != gone or other.kind == RECV_ANY or (other.kind == SEND) == (op.kind == SEND):
            continue
        sent = other.kind == SEND
        told = f"{'sent' if sent else 'posted a receive of'} {in_bytes(other.size)} {'to' if sent else 'from'}"
        told = f"Rank {gone} {told} rank {other.peer}{source.quote(other.line)}"
        if other.peer == op.rank and other.tag != op.tag:
            told += f" with tag {_tag(other)}, but rank {op.rank} waits with tag {_tag(op)}."
        elif other.peer != op.rank:
            told += f", and rank {other.peer} never {'received' if sent else 'sent'} it."
        else:
            continue
        return Odd(gone, other.line, told)
    return None


def _unmet(trace: Trace) -> Iterator[Operation]:
    """The sides of messages that have no other side."""
    met = {id(op) for pair in match(trace.all_operations()) for op in pair}
    return (op for op in trace.all_operations() if not op.collective and id(op) not in met)


def _tag(op: Operation) -> int:
    return op.tag & 0xFFFFFFFF


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _way(op: Operation) -> str:
    return f"{'sends to' if op.kind == SEND else 'receives from'} rank {op.peer}"
