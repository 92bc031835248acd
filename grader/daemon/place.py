"""Where the warm service of this user, this installation and this environment has its socket.

Imports little: every command waits for it.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
import zlib

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DECIDING = ("RANKUP_", "PYTHON", "LD_", "OMP_", "MKL_", "CUDA_", "JAVA_", "TMPDIR", "PATH", "HOME", "LANG", "LC_")
LONGEST = 80  # bytes of a folder's path: that of a socket in it has at most 107
NOT_DECIDING = {"RANKUP_DATA", "RANKUP_CLASS"}  # read by each command anew


def folder() -> str | None:
    """A folder for sockets that nobody else can look into, made if it is not there; None where none can be had."""
    uid = os.getuid()
    below = os.environ.get("XDG_RUNTIME_DIR", "")
    for parent in (below, os.environ.get("TMPDIR") or "/tmp"):
        path = os.path.join(parent, "rankup" if parent == below else f"rankup-{uid}")
        try:
            os.makedirs(path, 0o700, exist_ok=True) if parent else None
            found = os.lstat(path)
        except OSError:
            continue
        if len(os.fsencode(path)) > LONGEST:
            continue
        if parent and stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & 0o077:
            return path
    return None


def ours(connection: socket.socket) -> bool:
    """Whether the other end was made by this user, where the kernel says so."""
    option = getattr(socket, "SO_PEERCRED", None)
    return option is None or struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, 12))[1] == os.getuid()


def name() -> tuple[str, str]:
    """What stands for this installation in this environment, and what for the version of its files."""
    deciding = sorted(
        f"{key}={value}" for key, value in os.environ.items() if key.startswith(DECIDING) and key not in NOT_DECIDING
    )
    processors = str(sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else "")
    here = "\0".join((PACKAGE, sys.executable, processors, *deciding))
    return f"{zlib.crc32(here.encode(errors='surrogateescape')):08x}", f"{zlib.crc32(_files().encode()):08x}"


def _files() -> str:
    """Names, sizes and times of all files of the package, and of the folder that packages are installed to."""
    found = [str(os.stat(path).st_mtime_ns) for path in sys.path if path.endswith("-packages") and os.path.isdir(path)]
    todo = [PACKAGE]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    if entry.name not in ("__pycache__", "right"):
                        todo.append(entry.path)
                elif not entry.name.endswith(".md"):
                    about = entry.stat()
                    found.append(f"{entry.path} {about.st_size} {about.st_mtime_ns}")
    return "\n".join(sorted(found))
