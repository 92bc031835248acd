"""Ranks that wait for ever: for whom, in a cycle or at the end of a chain, and why nobody comes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from grader.ranks.blame.collectives import disagree
from grader.ranks.blame.odd import odd_one
from grader.ranks.blame.source import Source, waits
from grader.says import in_bytes
from grader.trace.events import GROUP_BITS, RECV_ANY, SEND, Operation, Trace, match
from grader.verdict import Diagnosis


def stuck(trace: Trace, blocked: Mapping[int, Operation], over: Collection[int]) -> dict[int, set[int]]:
    """The ranks that can never go on, each with the ranks it waits for.

    `blocked` maps a rank to the operation it waits in, `over` holds the ranks that have returned, raised or died.
    A rank is stuck if its operation has met no counterpart and every rank that could post one is stuck or over.
    """
    lost = trace.lost
    killed = {span.rank for span in trace.spans if span.what == "killed"}  # and what they had not begun to send
    met = {id(op) for pair in match(trace.all_operations()) for op in pair}
    sends_to = {
        (op.peer, op.tag)
        for op in trace.all_operations()
        if op.kind == SEND
        and not op.done
        and op.rank not in killed
        and id(op) not in met
        and (op.rank, op.peer, op.posted) not in lost
    }
    waiting: dict[int, set[int]] = {}
    together = {id(part): found for found in trace.collectives for part in found}
    for rank, op in blocked.items():
        if op.threaded or id(op) in met or (op.kind == RECV_ANY and (rank, op.tag) in sends_to):
            continue
        if op.collective:
            missing = _missing(trace, op, together.get(id(op), [op]))
            if missing:
                waiting[rank] = missing
        else:
            waiting[rank] = set(range(trace.ranks)) - {rank} if op.kind == RECV_ANY else {op.peer}
    while True:
        gone = set(waiting) | set(over)
        # a collective is stuck as soon as one missing rank is; a receive from any source only when all are
        freed = [
            rank
            for rank, needed in waiting.items()
            if not (needed & gone if blocked[rank].collective else needed <= gone)
        ]
        if not freed:
            return waiting
        for rank in freed:
            del waiting[rank]


def _missing(trace: Trace, op: Operation, found: list[Operation]) -> set[int]:
    """The ranks that a collective lacks, of which there is `found`: those that have not joined it or, if all have, that
    joined another."""
    joined = {other.rank for other in found}
    absent = set(trace.groups.get(op.tag, range(trace.ranks))) - joined
    return absent or {other.rank for other in found if disagree(op, other)}


def cycle(waiting: Mapping[int, Collection[int]]) -> list[int]:
    """Ranks that wait for one another in a ring, the lowest first; empty if the waits end in a rank that is over."""
    for first in sorted(waiting):
        path: list[int] = []
        at: int | None = first
        while at is not None and at not in path:
            path.append(at)
            at = min((rank for rank in waiting[at] if rank in waiting), default=None)
        if at is not None:
            ring = path[path.index(at) :]
            low = ring.index(min(ring))
            return ring[low:] + ring[:low]
    return []


def _astray(ring: list[int], blocked: Mapping[int, Operation], trace: Trace, source: Source) -> str:
    """What to say of a message that a rank of the cycle has sent, and that no receive fits."""
    met = {id(op) for pair in match(trace.all_operations()) for op in pair}
    for rank in ring:
        for send in trace.operations(rank):
            if send.kind != SEND or id(send) in met:
                continue
            waiting = blocked.get(send.peer)
            told = f"Rank {rank} has begun to send {in_bytes(send.size)} to rank {send.peer}{source.quote(send.line)}, "
            if waiting is None or not waiting.receives:
                continue
            if waiting.peer not in (rank, -1):
                told += f"but rank {send.peer} waits for a message from rank {waiting.peer}"
                unmet = [op.peer for op in trace.operations(send.peer) if op.receives and id(op) not in met]
                if rank not in unmet and -1 not in unmet:
                    told += f", and has begun no receive for the message of rank {rank}. "
                    return told + "Check which rank each call names, and whether this receive is missing or too late."
                return told + ". Check which rank each call names, and in which order each rank makes its calls."
            if send.tag >> GROUP_BITS != waiting.tag >> GROUP_BITS:
                return told + f"but rank {send.peer} receives in another process group. Use one group for both."
            tags = f"with tag {_tag(send)}, but rank {send.peer} waits for tag {_tag(waiting)}"
            return told + f"{tags}. Use one tag for both."
    return ""


def _begun(sends: list[Operation], trace: Trace, source: Source) -> str:
    """What to say of a receive that the receiver of one of these sends has begun, and that no send fits."""
    met = {id(op) for pair in match(trace.all_operations()) for op in pair}
    for send in sends:
        for recv in trace.operations(send.peer):
            if not recv.receives or id(recv) in met or recv.peer == -1:
                continue
            told = f"Rank {send.peer} has begun to receive from rank {recv.peer}{source.quote(recv.line)}, "
            if recv.peer != send.rank:
                told += f"but it is rank {send.rank} that waits to send to it. "
                return told + "Check which rank each call names, and in which order each rank makes its calls."
            if send.tag >> GROUP_BITS != recv.tag >> GROUP_BITS:
                return told + f"but rank {send.rank} sends in another process group. Use one group for both."
            return (
                told + f"with tag {_tag(recv)}, but rank {send.rank} sends with tag {_tag(send)}. Use one tag for both."
            )
    return ""


def _tag(op: Operation) -> int:
    return op.tag & 0xFFFFFFFF


def deadlock(ring: list[int], blocked: Mapping[int, Operation], trace: Trace, source: Source) -> Diagnosis:
    """The sentence for a wait-for cycle."""
    ops = [blocked[rank] for rank in ring]
    same_line = len({op.wait_line or op.line for op in ops}) == 1
    told = [waits(op, source if i == 0 or not same_line else Source(source.file, "")) for i, op in enumerate(ops)]
    if len(told) > 5:
        told = [*told[:3], f"and so on, up to {told[-1]}"]
    if all(op.kind == SEND for op in ops) and (begun := _begun(ops, trace, source)):
        advice = begun
    elif all(op.kind == SEND for op in ops):
        advice = (
            "A send returns only after its receiver has posted the matching recv, and each of these ranks still waits "
            "in its own send. Start the send with isend, then receive, then wait for the send."
        )
    elif astray := _astray(ring, blocked, trace, source):
        advice = astray
    elif all(op.receives for op in ops):
        advice = "Each of them waits for a message that no rank has sent. At least one of them must send first."
    else:
        advice = "Each can go on only after the next one does. All ranks must make matching calls in the same order."
    first = ops[0]
    text = f"Deadlock, a cycle of {len(ring)} ranks: {', '.join(told)}. {advice}"
    got = f"a wait-for cycle {' -> '.join(map(str, [*ring, ring[0]]))}"
    line = first.wait_line or first.line or None
    return source.found("deadlock", text, first.rank, line, "every send meets a recv", got)


def left_early(
    waiting: Mapping[int, set[int]], blocked: Mapping[int, Operation], returned: Collection[int], source: Source,
    trace: Trace | None = None,
) -> Diagnosis:  # fmt: skip
    """The sentence for a rank that returned while another still waits for it. With a trace it also says which call is
    the odd one out, and where the operation was begun."""
    waiter = next((rank for rank in sorted(waiting) if waiting[rank] & set(returned)), min(waiting))
    op = blocked[waiter]
    gone = min(waiting[waiter] & set(returned), default=min(waiting[waiter]))
    rule = f"Every send needs a receive. Let rank {gone} make the matching call before it returns, or remove this call."
    if op.collective:
        rule = "Every rank of a group must make every collective call of the group."
    begun, odd = "", None
    if trace is not None:
        if op.wait_line not in (0, op.line):
            begun = f" for what it began earlier{source.quote(op.line)}"
        odd = odd_one(op, gone, trace, source) if gone in returned else None
    evidence = f" {odd.told}" if odd else ""
    text = f"Rank {gone} returned, but {waits(op, source)}{begun}. Nothing will end this wait.{evidence} {rule}"
    line = (odd.line if odd else 0) or op.wait_line or op.line or None
    got = f"rank {gone} was done, rank {waiter} was not"
    return source.found("left_early", text, odd.rank if odd else gone, line, "all ranks finish together", got)
