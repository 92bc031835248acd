"""From a stuck or broken run to a sentence: who waits for whom, who is to blame, and at which of the learner's lines.

Pure functions over the trace and the ranks' last states; the same for every engine.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from grader.ranks.program import Ending
from grader.trace.events import RECV_ANY, SEND, Operation, Trace, match
from grader.verdict import Diagnosis, Kind


@dataclass(frozen=True)
class Raised:
    """An exception that left the learner's function (or module) on one rank."""

    type: str
    text: str
    line: int | None
    why: str = ""  # "memory" | "syntax" | "forbidden" | ""


@dataclass(frozen=True)
class Source:
    """The learner's file, to quote lines from."""

    file: str
    text: str

    def quote(self, line: int | None) -> str:
        """ " (line 7: `dist.send(x, 1)`)", or nothing where the line is not the learner's."""
        lines = self.text.splitlines()
        if not line or line > len(lines):
            return ""
        code = lines[line - 1].strip()
        return f" (line {line}: `{code if len(code) <= 60 else code[:57] + '...'}`)"


def stuck(trace: Trace, blocked: Mapping[int, Operation], over: Collection[int]) -> dict[int, set[int]]:
    """The ranks that can never go on, each with the ranks it waits for.

    `blocked` maps a rank to the operation it waits in, `over` holds the ranks that have returned, raised or died.
    A rank is stuck if its operation has met no counterpart and every rank that could post one is stuck or over.
    """
    met = {id(op) for pair in match(trace.all_operations()) for op in pair}
    sends_to = {
        (op.peer, op.tag) for op in trace.all_operations() if op.kind == SEND and not op.done and id(op) not in met
    }
    waiting: dict[int, set[int]] = {}
    for rank, op in blocked.items():
        if op.threaded or id(op) in met or (op.kind == RECV_ANY and (rank, op.tag) in sends_to):
            continue
        if op.collective:
            missing = _not_joined(trace, op) or _joined_another(trace, op)
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


def _not_joined(trace: Trace, op: Operation) -> set[int]:
    """The ranks that have posted fewer collectives than `op`'s rank had when it posted `op`."""
    index = _index(trace, op)
    return {r for r in range(trace.ranks) if sum(o.collective for o in trace.operations(r)) <= index}


def _index(trace: Trace, op: Operation) -> int:
    """How many collectives `op`'s rank had posted before it."""
    return sum(other.collective for other in trace.operations(op.rank)[: op.number])


def _counterparts(trace: Trace, op: Operation) -> dict[int, Operation]:
    """By rank, what the other ranks posted as the same collective in their order."""
    index = _index(trace, op)
    collectives = {r: [o for o in trace.operations(r) if o.collective] for r in range(trace.ranks) if r != op.rank}
    return {rank: ops[index] for rank, ops in collectives.items() if len(ops) > index}


def _joined_another(trace: Trace, op: Operation) -> set[int]:
    """The ranks whose collective in that place is of another kind."""
    return {rank for rank, other in _counterparts(trace, op).items() if other.kind != op.kind}


def mismatched(trace: Trace, blocked: Mapping[int, Operation], source: Source) -> Diagnosis | None:
    """The sentence for ranks that wait in different collectives where there should be one; None if none do."""
    for rank in sorted(blocked):
        op = blocked[rank]
        others = {r: o for r, o in _counterparts(trace, op).items() if o.kind != op.kind} if op.collective else {}
        if others:
            other = others[min(others)]
            place = _index(trace, op) + 1
            return Diagnosis(
                "mismatched_collective",
                f"Collective number {place} is not the same everywhere: rank {rank} called {op.name}"
                f"{source.quote(op.line)}, but rank {other.rank} called {other.name}{source.quote(other.line)}. "
                "Every rank must make the same collective calls in the same order.",
                rank=rank,
                file=source.file,
                line=op.line or None,
                expected=f"{op.name} on every rank",
                got=f"{other.name} on rank {other.rank}",
            )
    return None


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


def waits(op: Operation, source: Source) -> str:
    """ "rank 0 waits to send 32 bytes to rank 1 (line 9: `...`)"."""
    place = source.quote(op.wait_line or op.line)
    if op.collective:
        return f"rank {op.rank} waits in {op.name}{place}"
    if op.kind == RECV_ANY:
        return f"rank {op.rank} waits for a message from any rank{place}"
    if op.kind == SEND:
        return f"rank {op.rank} waits to send {_bytes(op.size)} to rank {op.peer}{place}"
    return f"rank {op.rank} waits to receive {_bytes(op.size)} from rank {op.peer}{place}"


def _bytes(size: int) -> str:
    return "1 byte" if size == 1 else f"{size} bytes"


def deadlock(ring: list[int], blocked: Mapping[int, Operation], source: Source) -> Diagnosis:
    """The sentence for a wait-for cycle."""
    ops = [blocked[rank] for rank in ring]
    same_line = len({op.wait_line or op.line for op in ops}) == 1
    told = [waits(op, source if i == 0 or not same_line else Source(source.file, "")) for i, op in enumerate(ops)]
    if len(told) > 5:
        told = [*told[:3], f"and so on, until {told[-1]}"]
    if all(op.kind == SEND for op in ops):
        advice = (
            "A send returns only when its receiver has posted the matching recv, and each of these ranks would do so "
            "only after its own send: start the send with isend, receive, and then wait for the send."
        )
    elif all(op.receives for op in ops):
        advice = "Each waits for a message that is sent only after its own has arrived: somebody must send first."
    else:
        advice = "No rank can go on before another does."
    first = ops[0]
    return Diagnosis(
        "deadlock",
        f"Deadlock, a cycle of {len(ring)} ranks: {', '.join(told)}. {advice}",
        rank=first.rank,
        file=source.file,
        line=first.wait_line or first.line or None,
        expected="every send meets a recv",
        got="a wait-for cycle " + " -> ".join(str(rank) for rank in [*ring, ring[0]]),
    )


def left_early(
    waiting: Mapping[int, set[int]], blocked: Mapping[int, Operation], returned: Collection[int], source: Source
) -> Diagnosis:
    """The sentence for a rank that returned while another still waits for it."""
    waiter = next((rank for rank in sorted(waiting) if waiting[rank] & set(returned)), min(waiting))
    op = blocked[waiter]
    gone = min(waiting[waiter] & set(returned), default=min(waiting[waiter]))
    rule = "Every rank must take the same number of steps, and every message sent must be received."
    if op.collective:
        rule = "Every rank must make every collective call."
    return Diagnosis(
        "left_early",
        f"Rank {gone} returned, but {waits(op, source)}, and that can no longer happen. {rule}",
        rank=gone,
        file=source.file,
        line=op.wait_line or op.line or None,
        expected="all ranks finish together",
        got=f"rank {gone} was done, rank {waiter} was not",
    )


def raised(rank: int, error: Raised, ranks: int, source: Source, others: int) -> Diagnosis:
    """The sentence for an exception in the learner's code."""
    place = source.quote(error.line)
    if error.why == "forbidden":
        return forbidden(rank, error.text.split(" at line ")[0], error.line, source)
    if error.why == "syntax":
        return Diagnosis(
            "syntax_error",
            f"{source.file} is not valid Python: {error.type}: {error.text}{place}.",
            file=source.file,
            line=error.line,
        )
    also = f", and so did {others} other rank{'s' if others > 1 else ''}" if others else ""
    text = f": {_first_line(error.text)}" if error.text else ""
    kind: Kind = "out_of_memory" if error.why == "memory" else "crash"
    return Diagnosis(
        kind,
        f"Rank {rank} of {ranks} raised {error.type}{text}{place}{also}.",
        rank=rank,
        file=source.file,
        line=error.line,
        expected="the function returns on every rank",
        got=error.type,
    )


def _first_line(text: str) -> str:
    line = text.splitlines()[0].rstrip(".") if text else ""
    return line if len(line) <= 200 else line[:197] + "..."


def died(rank: int, status: int, trace: Trace, source: Source) -> Diagnosis:
    """The sentence for a process that ended without returning."""
    if status < 0:
        name = signal.Signals(-status).name if -status in signal.valid_signals() else f"signal {-status}"
        how = f"was killed by {name}"
    else:
        how = f"ended with exit status {status} without returning"
    misfit = next(((s, r) for s, r in match(trace.all_operations()) if r.rank == rank and s.size > r.size), None)
    last = trace.operations(rank)[-1:]
    line = last[0].line if last else None
    if misfit:
        send, recv = misfit
        why = (
            f": it receives {_bytes(recv.size)} from rank {send.rank}{source.quote(recv.line)}, but rank {send.rank} "
            f"sends {_bytes(send.size)}{source.quote(send.line)}"
        )
        line = recv.line
    else:
        why = f" after {last[0].name}{source.quote(line)}" if last else " before it communicated"
    return Diagnosis(
        "left_early" if status == 0 else "crash",
        f"Rank {rank}'s process {how}{why}.",
        rank=rank,
        file=source.file,
        line=line,
        expected="the function returns on every rank",
        got=how,
    )


def forbidden(rank: int, call: str, line: int | None, source: Source) -> Diagnosis:
    """The sentence for a collective in an exercise about point-to-point messages."""
    return Diagnosis(
        "forbidden_call",
        f"Rank {rank} called {call}{source.quote(line)}. Here only send, recv, isend, irecv and batch_isend_irecv are "
        "allowed: the exercise is to build the collective out of them.",
        rank=rank,
        file=source.file,
        line=line,
        expected="point-to-point calls only",
        got=call,
    )


_RACES = {
    "changed": (
        "Rank {rank} changed the buffer that it was still sending to rank {peer}{posted}, before that send was "
        "waited for{line}: the receiver may get the old values, the new ones, or some of each."
    ),
    "received_into": (
        "Rank {rank} receives into memory{line} that it is still sending to rank {peer}{posted}: wait for the send "
        "first, or receive into another buffer."
    ),
    "send_not_waited": (
        "Rank {rank} returned without waiting for its isend to rank {peer}{posted}: the message may never leave, and "
        "the caller may change the buffer at once."
    ),
    "recv_not_waited": (
        "Rank {rank} returned without waiting for its irecv from rank {peer}{posted}: the data may not be there yet."
    ),
}


def race(rank: int, how: str, peer: int, posted: int, line: int, source: Source) -> Diagnosis:
    """The sentence for a buffer or request used before its operation was done. Raises KeyError for an unknown `how`."""
    message = _RACES[how].format(rank=rank, peer=peer, posted=source.quote(posted), line=source.quote(line))
    return Diagnosis(
        "race",
        message,
        rank=rank,
        file=source.file,
        line=line or None,
        expected="wait() before the buffer is used",
        got=how.replace("_", " "),
    )


def timed_out(rank: int, line: int | None, trace: Trace, source: Source, how: str) -> Diagnosis:
    """The sentence for a rank that does not come back."""
    done = len(trace.operations(rank))
    talked = f"after {done} communication call{'s' if done != 1 else ''}" if done else "before any communication"
    return Diagnosis(
        "timeout",
        f"Rank {rank} did not return: it {how}{source.quote(line)}, {talked}. Is there a loop that never ends?",
        rank=rank,
        file=source.file,
        line=line,
        expected="the function returns",
        got=how,
    )


ENDINGS: dict[str, Ending] = {"out_of_memory": "out_of_memory", "left_early": "left_early", "deadlock": "deadlocked"}
