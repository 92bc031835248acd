"""The system calls that change files: their numbers, what they name, and the filter that has a watcher told of them."""

from __future__ import annotations

import os
import platform
import struct
from dataclasses import dataclass
from functools import cache

_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARGUMENTS = 0, 16  # offsets in struct seccomp_data
_ALLOW, _USER_NOTIF = 0x7FFF0000, 0x7FC00000
AT_FDCWD = -100
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True)
class FileCall:
    """A call: its numbers on x86_64 and aarch64 (-1: none), and which arguments say what it changes.

    `fd` is the argument that is a descriptor of the file; `path` the one that points to its name, relative to the
    folder whose descriptor is argument `folder`. For one of two names it is the new one.
    """

    numbers: tuple[int, int]
    fd: int = -1
    path: int = -1
    folder: int = -1
    flags: int = -1  # the argument that says whether an open is to write
    size: int = -1  # the argument that says how many bytes

    @property
    def whole(self) -> bool:
        """Whether it is about all files."""
        return self.fd < 0 and self.path < 0


FILE_CALLS = {
    "open": FileCall((2, -1), path=0, flags=1),
    "openat": FileCall((257, 56), path=1, folder=0, flags=2),
    "openat2": FileCall((437, 437), path=1, folder=0),
    "creat": FileCall((85, -1), path=0),
    "write": FileCall((1, 64), fd=0, size=2),
    "pwrite64": FileCall((18, 68), fd=0, size=2),
    "writev": FileCall((20, 66), fd=0),
    "pwritev": FileCall((296, 70), fd=0),
    "pwritev2": FileCall((328, 287), fd=0),
    "copy_file_range": FileCall((326, 285), fd=2, size=4),
    "sendfile": FileCall((40, 71), fd=0, size=3),
    "splice": FileCall((275, 76), fd=2, size=4),
    "fallocate": FileCall((285, 47), fd=0),
    "ftruncate": FileCall((77, 46), fd=0),
    "truncate": FileCall((76, 45), path=0),
    "rename": FileCall((82, -1), path=1),
    "renameat": FileCall((264, 38), path=3, folder=2),
    "renameat2": FileCall((316, 276), path=3, folder=2),
    "link": FileCall((86, -1), path=1),
    "linkat": FileCall((265, 37), path=3, folder=2),
    "symlink": FileCall((88, -1), path=1),
    "symlinkat": FileCall((266, 36), path=2, folder=1),
    "unlink": FileCall((87, -1), path=0),
    "unlinkat": FileCall((263, 35), path=1, folder=0),
    "rmdir": FileCall((84, -1), path=0),
    "mkdir": FileCall((83, -1), path=0),
    "mkdirat": FileCall((258, 34), path=1, folder=0),
    "fsync": FileCall((74, 82), fd=0),
    "fdatasync": FileCall((75, 83), fd=0),
    "sync_file_range": FileCall((277, 84), fd=0),
    "syncfs": FileCall((306, 267)),
    "sync": FileCall((162, 81)),
    "msync": FileCall((26, 227)),
}
WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "copy_file_range", "sendfile", "splice", "fallocate")
SYNCS = ("fsync", "fdatasync", "syncfs", "sync", "msync")  # after these, data outlasts the loss of power


def evenly(count: int, most: int) -> list[int]:
    """At most so many of `count` calls' numbers, the first and the last among them."""
    return sorted({round(i * (count - 1) / max(1, most - 1)) for i in range(most)}) if count else []


def _column() -> int:
    return {"x86_64": 0, "aarch64": 1}[platform.machine()]


@cache
def by_number() -> dict[int, str]:
    """The names of this machine's calls."""
    return {call.numbers[_column()]: name for name, call in FILE_CALLS.items() if call.numbers[_column()] >= 0}


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return _INSTRUCTION.pack(code, yes, no, value)


@cache
def program() -> bytes:
    """The filter: these calls wait for a watcher, opens only where they are to write; all others are let through."""
    steps = [_op(_LOAD, _NUMBER)]
    for number, name in by_number().items():
        flags = FILE_CALLS[name].flags
        block = [_op(_RETURN, _USER_NOTIF)]
        if flags >= 0:
            look = _op(_LOAD, _ARGUMENTS + 8 * flags)
            block = [look, _op(_ANY_BIT, _TO_WRITE, 0, 1), _op(_RETURN, _USER_NOTIF), _op(_RETURN, _ALLOW)]
        steps += [_op(_EQUAL, number, 0, len(block)), *block]
    return b"".join([*steps, _op(_RETURN, _ALLOW)])
