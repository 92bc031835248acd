"""What the processes of one box use, read from /proc. Processes may vanish while they are being counted.

Everything goes through a descriptor of a /proc folder: a box has one of its own, in which only its processes are.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """One process: its parent, threads, CPU seconds (its own, and of children it waited for), and bytes of memory that
    are no file's; what it shares with others counts in full."""

    pid: int
    parent: int
    threads: int
    cpu_seconds: float
    reaped_cpu_seconds: float
    memory_bytes: int


def read(folder: int, pid: int, name: str) -> str:
    """A file of a process below the /proc folder with descriptor `folder`. Raises OSError."""
    fd = os.open(f"{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(fd, 2**16).decode(errors="replace")
    finally:
        os.close(fd)


def process(folder: int, pid: int) -> Process | None:
    """One process; None if it is gone."""
    try:
        fields = read(folder, pid, "stat").rpartition(")")[2].split()
        kept = dict(line.split(":", 1) for line in read(folder, pid, "status").splitlines() if line.startswith("Rss"))
        memory = sum(int(kept[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem") if name in kept)
    except (OSError, ValueError):
        return None
    return Process(
        pid, int(fields[1]), int(fields[17]), (int(fields[11]) + int(fields[12])) / _TICKS,
        (int(fields[13]) + int(fields[14])) / _TICKS, memory,
    )  # fmt: skip


def pids(folder: int) -> list[int]:
    """The processes in a /proc folder."""
    return [int(name) for name in os.listdir(folder) if name.isdigit()]


def below(folder: int, root: int) -> list[Process]:
    """The descendants of `root`, in no order."""
    found = [each for pid in pids(folder) if (each := process(folder, pid)) is not None]
    children: dict[int, list[Process]] = {}
    for each in found:
        children.setdefault(each.parent, []).append(each)
    tree: list[Process] = []
    todo = [root]
    while todo:
        more = children.pop(todo.pop(), [])
        tree += more
        todo += [each.pid for each in more]
    return tree


def sockets(folder: int, pid: int) -> list[int]:
    """The inodes of the sockets that a process has open."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        fd = os.open(f"{pid}/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            for name in os.listdir(fd):
                with contextlib.suppress(OSError):
                    kind, _, inode = os.readlink(name, dir_fd=fd).partition(":")
                    if kind == "socket":
                        found.append(int(inode.strip("[]")))
        finally:
            os.close(fd)
    return found


def proportional_bytes(folder: int, pids: list[int]) -> int:
    """The processes' memory, what several share divided among them (proportional set size)."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, StopIteration):
            lines = read(folder, pid, "smaps_rollup").splitlines()
            total += int(next(line for line in lines if line.startswith("Pss:")).split()[1]) * 1024
    return total
