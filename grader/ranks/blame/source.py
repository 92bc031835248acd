"""The learner's file, to quote from, and words that all sentences share."""

from __future__ import annotations

from dataclasses import dataclass

from grader.trace.events import RECV_ANY, SEND, Operation


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


def in_bytes(size: int) -> str:
    """ "1 byte", "32 bytes"."""
    return "1 byte" if size == 1 else f"{size} bytes"
