"""A process's file operations, told to another process before each of them is done: seccomp(2)'s user notification.

The watched process waits inside of the call until it is let go on (SECCOMP_USER_NOTIF_FLAG_CONTINUE) or is killed; so
whoever watches can end it between any two of them, exactly.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import struct
from dataclasses import dataclass

from grader.ranks.lives.calls import AT_FDCWD, FILE_CALLS, WRITES, by_number, program

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_PR_SET_NO_NEW_PRIVS = 38
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTICE = struct.Struct("=QIIiIQ6Q")  # id, pid, flags; number, architecture, instruction pointer, arguments
_ANSWER = struct.Struct("=QqiI")  # id, value, error, flags
_CONTINUE = 1
LONGEST_PATH = 4096


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def listen() -> int:
    """Put this process, which has one thread, and all its children under the filter.

    Returns the descriptor at which a watcher is told. OSError: the kernel refused (it must be Linux 5.5 or newer).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    records = _Program(len(program()) // 8, program())
    fd = libc.syscall(_SECCOMP[platform.machine()], _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(records))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"file operations cannot be watched here: {os.strerror(number)}")
    return int(fd)


@dataclass(frozen=True)
class Notice:
    """A thread waits to do a file operation: the number by which it is answered, and what it is.

    `through` says of a write that its file is open with O_DSYNC: when the write returns, it is on the disk.
    """

    id: int
    thread: int
    call: str
    path: str | None  # of the file; None where it cannot be known
    through: bool = False
    size: int = 0


def receive(listener: int) -> Notice | None:
    """The next notice, or None if the one who waited is gone."""
    room = bytearray(_NOTICE.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, room)
    except (FileNotFoundError, InterruptedError):
        return None
    number, thread, _, call, _, _, *arguments = _NOTICE.unpack(room)
    name = by_number().get(call, "")
    asked = FILE_CALLS[name]
    size = arguments[asked.size] if asked.size >= 0 else 0
    through = name in WRITES and bool(_flags(thread, arguments[asked.fd]) & os.O_DSYNC)
    return Notice(number, thread, name, _path(name, thread, arguments), through, size)


def let_go_on(listener: int, notice: Notice) -> None:
    """Have the operation done."""
    with contextlib.suppress(FileNotFoundError):  # killed meanwhile
        fcntl.ioctl(listener, _SEND, _ANSWER.pack(notice.id, 0, 0, _CONTINUE))


def _path(name: str, thread: int, arguments: list[int]) -> str | None:
    call = FILE_CALLS[name]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if call.fd >= 0:
            return os.readlink(f"/proc/{thread}/fd/{_descriptor(arguments[call.fd])}")
        if call.path >= 0:
            folder = _descriptor(arguments[call.folder]) if call.folder >= 0 else AT_FDCWD
            base = f"/proc/{thread}/cwd" if folder == AT_FDCWD else f"/proc/{thread}/fd/{folder}"
            return os.path.normpath(os.path.join(os.readlink(base), _text(thread, arguments[call.path])))
    return None


def _flags(thread: int, argument: int) -> int:
    """How a thread's descriptor was opened; 0 where that cannot be known."""
    with contextlib.suppress(OSError), open(f"/proc/{thread}/fdinfo/{_descriptor(argument)}") as lines:
        return next((int(line.split()[1], 8) for line in lines if line.startswith("flags:")), 0)
    return 0


def _descriptor(argument: int) -> int:
    return int(ctypes.c_int(argument & 0xFFFFFFFF).value)


def _text(thread: int, address: int) -> str:
    """The text at an address of another process."""
    memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY)
    try:
        return os.pread(memory, LONGEST_PATH, address).split(b"\0", 1)[0].decode()
    finally:
        os.close(memory)
