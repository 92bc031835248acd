"""Buffers and messages that finish all the same: used too soon, never waited for, misread, never received."""

from __future__ import annotations

from collections.abc import Iterator

from grader.ranks.blame.source import Source, in_bytes
from grader.trace.events import SEND, Trace
from grader.verdict import Diagnosis

_RACES = {
    "changed": (
        "Rank {rank} changed the buffer that it was still sending to rank {peer}{posted}, before that send was "
        "waited for{line}: the receiver may get the old values, the new ones, or some of each."
    ),
    "received_into": (
        "Rank {rank} receives into memory{line} that it is still sending to rank {peer}{posted}: wait for the send "
        "first, or receive into another buffer."
    ),
    "written_sent": (
        "Rank {rank} changed the buffer{line} that it was still sending to rank {peer}{posted}: the receiver may get "
        "the old values, the new ones, or some of each. Call wait() on that request before you change the buffer."
    ),
    "read_received": (
        "Rank {rank} read a buffer{line} that its irecv from {source}{posted} may not have filled yet: the values may "
        "be old. Call wait() on that request before you read the buffer."
    ),
    "written_received": (
        "Rank {rank} wrote into a buffer{line} that its irecv from {source}{posted} was still filling: either may "
        "overwrite the other. Call wait() on that request before you write into the buffer."
    ),
    "received_twice": (
        "Rank {rank} receives into memory{line} that its irecv from {source}{posted} is still filling: one message "
        "overwrites the other. Call wait() on the first request before you use its buffer again, or give each irecv "
        "a buffer of its own."
    ),
    "read_in_collective": (
        "Rank {rank} read a tensor{line} that it had given to a collective{posted}, before that was waited for: the "
        "result may not be there yet. Call wait() on that request before you read the tensor."
    ),
    "written_in_collective": (
        "Rank {rank} changed a tensor{line} that it had given to a collective{posted}, before that was waited for: the "
        "ranks may get the old values, the new ones, or some of each. Call wait() on that request first."
    ),
    "waited_twice": (
        "Rank {rank} waits again{line} for a message{posted} that it already waited for: with gloo a second wait() on "
        "a send or receive blocks until the group's timeout. Call wait() once on each request."
    ),
    "send_not_waited": (
        "Rank {rank} returned without waiting for its isend to rank {peer}{posted}: the message may never leave, and "
        "the caller may change the buffer at once."
    ),
    "changed_in_collective": (
        "Rank {rank} changed a tensor that it had given to a collective{posted}, before that was waited for{line}: the "
        "others may get the old values, the new ones, or some of each."
    ),
    "collective_not_waited": (
        "Rank {rank} returned without waiting for the collective that it had started{posted}: its result may not be "
        "there yet."
    ),
    "recv_not_waited": (
        "Rank {rank} returned without waiting for its irecv from rank {peer}{posted}: the data may not be there yet."
    ),
}


def race(rank: int, how: str, peer: int, posted: int, line: int, source: Source) -> Diagnosis:
    """The sentence for a buffer or request used before its operation was done. Raises KeyError for an unknown `how`."""
    words = {"source": f"rank {peer}" if peer >= 0 else "any rank", "posted": source.quote(posted)}
    message = _RACES[how].format(rank=rank, peer=peer, line=source.quote(line), **words)
    return Diagnosis(
        "deadlock" if how == "waited_twice" else "race",
        message,
        rank=rank,
        file=source.file,
        line=line or None,
        expected="one wait() on each request" if how == "waited_twice" else "wait() before the buffer is used",
        got=how.replace("_", " "),
    )


def used_after_destroy(rank: int, call: str, line: int, destroyed: int, source: Source) -> Diagnosis:
    """The sentence for a collective in a group that the rank destroyed before."""
    return Diagnosis(
        "forbidden_call",
        f"Rank {rank} called {call}{source.quote(line)} in a group that it destroyed before{source.quote(destroyed)}. "
        "gloo goes on with what is left of the group, and other backends fail. Destroy a group after its last call.",
        rank=rank,
        file=source.file,
        line=line or None,
        expected="no call in a destroyed group",
        got=call,
    )


def misread(trace: Trace, source: Source) -> Iterator[Diagnosis]:
    """The sentences for messages that were received as another data type than they were sent as."""
    for send, recv in trace.messages:
        if recv.done and send.dtype and recv.dtype and send.dtype != recv.dtype and send.size:
            yield Diagnosis(
                "wrong_result",
                f"Rank {recv.rank} receives {recv.dtype}{source.quote(recv.line)}, but rank {send.rank} sends "
                f"{send.dtype}{source.quote(send.line)}: the bytes are taken as they come, and mean something else.",
                rank=recv.rank,
                file=source.file,
                line=recv.line or None,
                expected=send.dtype,
                got=recv.dtype,
            )


def unreceived(trace: Trace, source: Source) -> Iterator[Diagnosis]:
    """The sentences for messages that were sent, and waited for, and never received: eager ones, or lost."""
    met = {id(send) for send, _ in trace.messages}
    for rank in range(trace.ranks):
        for op in trace.operations(rank):
            if op.kind == SEND and op.done and id(op) not in met:
                yield Diagnosis(
                    "lost_or_duplicated",
                    f"Rank {op.rank} sent {in_bytes(op.size)} to rank {op.peer}{source.quote(op.line)}, and nobody "
                    "received it. On a network that makes a send wait for its receive, rank "
                    f"{op.rank} would wait for ever.",
                    rank=op.rank,
                    file=source.file,
                    line=op.line or None,
                    expected="every message is received",
                    got="a message that is not",
                )
