"""What a box may take of the machine; an exercise may ask for other limits than these."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MIB = 2**20


@dataclass(frozen=True)
class BoxLimits:
    """What all processes of one box together may take.

    Bytes of memory (proportional set size, scratch files included), processes and threads, bytes and inodes on its
    scratch disk; and what one process may: open files, bytes in one file, CPU seconds. CPU seconds are a backstop:
    each call has a tighter limit of its own (`ranks.program.Limits`).
    """

    memory_bytes: int = 2048 * MIB
    processes: int = 400
    disk_bytes: int = 256 * MIB
    inodes: int = 4096
    open_files: int = 1024
    file_bytes: int = 128 * MIB
    cpu_seconds: int = 120

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> BoxLimits:
        return cls(**data)
