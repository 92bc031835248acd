"""What a failing disk gives back of files: bits that are flipped, and files that are cut."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from grader.ranks.lives.disk import Files

SHORT = 4096  # bytes: of what is said about a checkpoint, and not of the checkpoint itself


def brought(before: Files, after: Files) -> dict[str, bytes]:
    """The files that are new or other than they were, the largest first."""
    new = {
        name: found for name, found in after.items() if isinstance(found, bytes) and found and before.get(name) != found
    }
    return dict(sorted(new.items(), key=lambda pair: -len(pair[1])))


def several(before: Files, after: Files, places: Sequence[float], number: int) -> Iterator[tuple[str, str, bytes]]:
    """The largest four of them, each damaged in several ways: its name, how, and what is left. A bit of the largest is
    flipped at each of the `places`, from 0 to 1; where a short file has this `number` as text, it becomes another."""
    for rank, (name, content) in enumerate(list(brought(before, after).items())[:4]):
        if len(content) <= SHORT:
            for found in list(re.finditer(rb"(?<!\d)0*%d(?!\d)" % number, content))[:4]:
                at = found.end() - 1
                yield (
                    name,
                    f"bit 0 of byte {at} of {len(content)} flipped, in the number {number}",
                    flipped(content, at, 0),
                )
        for place in places if rank == 0 else places[:2]:
            at = int(place * len(content))
            yield name, f"bit {at % 8} of byte {at} of {len(content)} flipped", flipped(content, at)
        yield name, f"cut to {len(content) // 2} of {len(content)} bytes", content[: len(content) // 2]
        yield name, f"cut to 0 of {len(content)} bytes", b""


def flipped(content: bytes, at: int, bit: int | None = None) -> bytes:
    """With one bit of byte `at` flipped."""
    return content[:at] + bytes([content[at] ^ 1 << (at % 8 if bit is None else bit)]) + content[at + 1 :]
