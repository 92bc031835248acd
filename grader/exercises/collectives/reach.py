"""What the messages of a trace alone tell: who can know of whom."""

from __future__ import annotations

from grader.trace.events import RECV_ANY, Trace


def heard(trace: Trace) -> list[set[int]]:
    """Per rank, the ranks from which it has heard by the time it is done, itself included.

    A rank has heard from another if a chain of messages leads from that one to it, each sent after the one before had
    been received ("happened before": Lamport 1978). Only a receive that was waited for counts, and only for the
    receiver: that a send is done tells its sender nothing of the other rank, for sends may be buffered. Of several
    receives from any source, each might have got the message of another: they count when the last of them is done.
    """
    posted, received = _places(trace)
    messages = [(s, r) for s, r in trace.messages if id(s) in posted and id(r) in received]
    known: list[set[int]] = [{rank} for rank in range(trace.ranks)]
    for source in range(trace.ranks):
        since = {source: 0}  # by rank, the place in its own order from which on it has heard from `source`
        changed = True
        while changed:
            changed = False
            for send, recv in messages:
                place = received[id(recv)]
                if send.rank in since and posted[id(send)] >= since[send.rank] and place < since.get(recv.rank, _NEVER):
                    since[recv.rank] = place
                    changed = True
        for rank in since:
            known[rank].add(source)
    return known


_NEVER = 1 << 60


def _places(trace: Trace) -> tuple[dict[int, int], dict[int, int]]:
    """By id(operation), where in its rank's order a send was posted, and where a receive was done."""
    posted: dict[int, int] = {}
    received: dict[int, int] = {}
    for steps in trace.steps:
        for place, step in enumerate(steps):
            if step.what == "post":
                posted[id(step.operation)] = place
            elif step.operation.receives and step.operation.done:
                received.setdefault(id(step.operation), place)
        from_any = [step.operation for step in steps if step.what == "post" and step.operation.kind == RECV_ANY]
        for op in from_any:
            alike = [received[id(other)] for other in from_any if other.tag == op.tag and id(other) in received]
            if id(op) in received:
                received[id(op)] = max(alike)
    return posted, received
