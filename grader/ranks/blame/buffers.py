"""Buffers and messages that finish all the same: used too soon, never waited for, misread, never received."""

from __future__ import annotations

from collections.abc import Iterator

from grader.ranks.blame.source import Source
from grader.says import in_bytes
from grader.trace.events import SEND, Trace
from grader.verdict import Diagnosis, Kind

_RACES = {
    "changed": (
        "Rank {rank} changed a tensor after it had begun to send it to {peer}{posted}, and before it waited for that "
        "send{line}. The receiver may get old values, new values or a mix. Send a copy, put new values into a new "
        "tensor, or wait for the send before you change the tensor."
    ),
    "received_into": (
        "Rank {rank} receives into memory{line} that it is still sending to {peer}{posted}. The receive may overwrite "
        "values before they are sent. Wait for the send first, or receive into another buffer."
    ),
    "written_sent": (
        "Rank {rank} changed the buffer{line} that it was still sending to {peer}{posted}. The receiver may get "
        "old values, new values or a mix. Call wait() on that request before you change the buffer."
    ),
    "read_received": (
        "Rank {rank} read a buffer{line} that its irecv from {peer}{posted} may not have filled yet. The values may "
        "be old. Call wait() on that request before you read the buffer."
    ),
    "written_received": (
        "Rank {rank} wrote into a buffer{line} that its irecv from {peer}{posted} was still filling. Either may "
        "overwrite the other. Call wait() on that request before you write into the buffer."
    ),
    "received_twice": (
        "Rank {rank} receives into memory{line} that its irecv from {peer}{posted} is still filling. One message "
        "overwrites the other. Call wait() on the first request before you use its buffer again, or give each irecv "
        "a buffer of its own."
    ),
    "read_in_collective": (
        "Rank {rank} read a tensor{line} that it had given to a collective{posted}, before it waited for the "
        "collective. The result may not have arrived yet. Call wait() on that request before you read the tensor."
    ),
    "written_in_collective": (
        "Rank {rank} changed a tensor{line} that it had given to a collective{posted}, before it waited for the "
        "collective. The ranks may get old values, new values or a mix. Call wait() on that request first."
    ),
    "waited_twice": (
        "Rank {rank} waits again{line} for a message{posted} that it already waited for. With gloo, a second wait() on "
        "a send or receive blocks until the group's timeout. Call wait() once on each request."
    ),
    "send_not_waited": (
        "Rank {rank} returned without waiting for its isend to {peer}{posted}. The message may never leave, and the "
        "caller may change the buffer too early. Call wait() on the request before you return."
    ),
    "changed_in_collective": (
        "Rank {rank} changed a tensor that it had given to a collective{posted}, before it waited for the collective"
        "{line}. Other ranks may get old values, new values or a mix. Wait for the collective first, or pass a copy."
    ),
    "collective_not_waited": (
        "Rank {rank} returned without waiting for the collective that it had started{posted}. The result may not have "
        "arrived yet. Call wait() on the request before you return."
    ),
    "recv_not_waited": (
        "Rank {rank} returned without waiting for its irecv from {peer}{posted}. The data may not have arrived yet. "
        "Call wait() on the request before you return."
    ),
}


_TWICE: tuple[Kind, str] = "deadlock", "one wait() on each request"
_TOO_SOON: tuple[Kind, str] = "race", "wait() before the buffer is used"


def race(rank: int, how: str, peer: int, posted: int, line: int, source: Source) -> Diagnosis:
    """The sentence for a buffer or request used before its operation was done. Raises KeyError for an unknown `how`."""
    who = f"rank {peer}" if peer >= 0 else "any rank"
    message = _RACES[how].format(rank=rank, peer=who, posted=source.quote(posted), line=source.quote(line))
    kind, wanted = _TWICE if how == "waited_twice" else _TOO_SOON
    return source.found(kind, message, rank, line or None, wanted, how.replace("_", " "))


def used_after_destroy(rank: int, call: str, line: int, destroyed: int, source: Source) -> Diagnosis:
    """The sentence for a collective in a group that the rank destroyed before."""
    text = (
        f"Rank {rank} called {call}{source.quote(line)} in a group that it destroyed before{source.quote(destroyed)}. "
        "gloo goes on with what is left of the group, and other backends fail. Destroy a group after its last call."
    )
    return source.found("forbidden_call", text, rank, line or None, "no call in a destroyed group", call)


def misread(trace: Trace, source: Source) -> Iterator[Diagnosis]:
    """The sentences for messages that were received as another data type than they were sent as."""
    for send, recv in trace.messages:
        if send.holds_like(recv):
            continue
        if recv.done and send.dtype and recv.dtype and send.dtype != recv.dtype and send.size:
            text = (
                f"Rank {recv.rank} receives {recv.dtype}{source.quote(recv.line)}, but rank {send.rank} sends "
                f"{send.dtype}{source.quote(send.line)}. The bytes arrive unchanged and then mean other numbers. Use "
                "the same dtype on both sides."
            )
            yield source.found("wrong_result", text, recv.rank, recv.line or None, send.dtype, recv.dtype)


def unreceived(trace: Trace, source: Source) -> Iterator[Diagnosis]:
    """The sentences for messages that were sent, and waited for, and never received: eager ones, or lost."""
    met = {id(send) for send, _ in trace.messages}
    for rank in range(trace.ranks):
        for op in trace.operations(rank):
            if op.kind == SEND and op.done and id(op) not in met:
                why = f"Where a send waits for its receive, rank {rank} would wait forever. Receive the message."
                if (op.rank, op.peer, op.posted) in trace.lost:
                    why = "It was lost, as you asked."
                text = (
                    f"Rank {op.rank} sent {in_bytes(op.size)} to rank {op.peer}{source.quote(op.line)}, and nobody "
                    f"received the message. {why}"
                )
                wanted, got = "every message is received", "a message that is not"
                yield source.found("lost_or_duplicated", text, op.rank, op.line or None, wanted, got)
