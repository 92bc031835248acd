"""The learner's file, to quote from, and words that all sentences share."""

from __future__ import annotations

from grader.says import in_bytes
from grader.submission import Source
from grader.trace.events import RECV_ANY, SEND, Operation

__all__ = ["Source", "waits"]


def waits(op: Operation, source: Source) -> str:
    """ "rank 0 waits to send 32 bytes to rank 1 (line 9: `...`)"."""
    place = source.quote(op.wait_line or op.line)
    if op.collective:
        return f"rank {op.rank} waits in {op.name}{place}"
    if op.kind == RECV_ANY:
        return f"rank {op.rank} waits for a message from any rank{place}"
    if op.kind == SEND:
        return f"rank {op.rank} waits to send {in_bytes(op.size)} to rank {op.peer}{place}"
    return f"rank {op.rank} waits to receive {in_bytes(op.size)} from rank {op.peer}{place}"
