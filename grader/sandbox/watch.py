"""What a tree of processes takes of the machine, from /proc, and the watchdog that ends one that takes too much."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from grader.sandbox.limits import BoxLimits

Exceeded = Literal["memory", "processes", "inodes"]

INTERVAL_SECONDS = 0.05
GROWTH_BYTES_PER_SECOND = 2 * 2**30 * (os.cpu_count() or 1)  # no process gets memory faster than that
MANY_THREADS = 32  # of one process: then one look at all processes costs less than one at each thread's children
KILL_ROUNDS = 50
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What a tree of processes takes: processes, their threads, CPU seconds so far (of children that ended, too), and
    bytes of memory, where a page that n processes share counts as an nth for each of them."""

    processes: int
    threads: int
    cpu_seconds: float
    pss_bytes: int


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    threads: int
    cpu_seconds: float
    rss_bytes: int


def usage(pid: int) -> Usage:
    """What process `pid` and everything below it take now; all zero if it is gone. A few ms a process of 200 MB."""
    there = _tree(pid)
    return _sum(there, sum(_memory(process)[0] for process in there))


def tree(pid: int) -> list[int]:
    """Process `pid` and everything below it, parents first; empty if it is gone."""
    return [process.pid for process in _tree(pid)]


def kill_tree(pid: int, seconds: float = 5.0) -> None:
    """Kill process `pid` and everything below it, and wait for their end, for so many seconds at most.

    All are stopped before the first is killed: a stopped process has no further child, and a parent that is killed
    first would let go of its children.
    """
    stopped: dict[int, int] = {}  # a descriptor for each
    try:
        for _ in range(KILL_ROUNDS):
            new = [found for found in tree(pid) if found not in stopped]
            if not new:
                break
            for found in new:
                with contextlib.suppress(OSError):
                    stopped[found] = os.pidfd_open(found)
                    signal.pidfd_send_signal(stopped[found], signal.SIGSTOP)
        for handle in reversed(stopped.values()):
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        _wait(list(stopped.values()), time.monotonic() + seconds)
    finally:
        for handle in stopped.values():
            os.close(handle)


def _wait(handles: list[int], deadline: float) -> None:
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    left = len(handles)
    while left and (seconds := deadline - time.monotonic()) > 0:
        for handle, _ in poll.poll(1000 * seconds):
            poll.unregister(handle)
            left -= 1


def scratch(pid: int, folders: Sequence[str], at_most: int) -> tuple[int, int]:
    """Bytes and inodes used in a box's scratch `folders` (each a file system of its own), as process `pid` sees them.

    A file system of more than `at_most` bytes is not a box's: the process is not in its box yet.
    """
    used = inodes = 0
    for folder in folders:
        with contextlib.suppress(OSError):
            found = os.statvfs(f"/proc/{pid}/root{folder}")
            if 0 < found.f_blocks * found.f_frsize <= at_most + _PAGE:
                used += (found.f_blocks - found.f_bfree) * found.f_frsize
                inodes += found.f_files - found.f_ffree
    return used, inodes


def _sum(there: Sequence[_Process], pss: int) -> Usage:
    cpu = sum(process.cpu_seconds for process in there)
    return Usage(len(there), sum(process.threads for process in there), cpu, pss)


def _tree(pid: int) -> list[_Process]:
    top = _process(pid)
    if top is None:
        return []
    found = [top]
    known = {pid}
    for process in found:  # grows while it is read
        children = None if process.threads > MANY_THREADS else _children(process.pid)
        if children is None:
            return _scan(top)
        for child in children - known:
            known.add(child)
            if below := _process(child):
                found.append(below)
    return found


def _scan(top: _Process) -> list[_Process]:
    """The same from the parents of all processes of the machine."""
    below: dict[int, list[_Process]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := _process(int(name))):
            below.setdefault(process.parent, []).append(process)
    found = [top]
    for process in found:
        found += below.pop(process.pid, [])
    return found


def _process(pid: int) -> _Process | None:
    """None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            text = stat.read()
    except OSError:
        return None
    after = text[text.rindex(b")") + 2 :].split()  # the name before may hold anything
    ticks = sum(int(field) for field in after[11:15])
    return _Process(pid, int(after[1]), max(1, int(after[17])), ticks / _TICKS, int(after[21]) * _PAGE)


def _children(pid: int) -> set[int] | None:
    """Its children, of every thread; None where this kernel does not tell."""
    found: set[int] = set()
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as listing:
                found |= {int(child) for child in listing.read().split()}
        except FileNotFoundError:
            if os.path.exists(f"/proc/{pid}/task/{thread}/stat"):
                return None
        except OSError:
            continue
    return found


def _memory(process: _Process) -> tuple[int, int]:
    """A process's proportional set size, and how much of it is shared memory or files in memory, in bytes.

    Where that may not be read, all that it has mapped counts.
    """
    try:
        with open(f"/proc/{process.pid}/smaps_rollup", "rb") as rollup:
            fields = dict(line.split(b":", 1) for line in rollup.read().splitlines()[1:])
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
    except (OSError, ValueError):
        return process.rss_bytes, 0
    pss, shared = (int(fields.get(name, b"0 kB").split()[0]) * 1024 for name in (b"Pss", b"Pss_Shmem"))
    return pss, shared


class Watch:
    """Looks every 50 ms at what process `pid` and everything below it take, and kills them all where it is too much.

    `exceeded` says why, None as long as nothing was; `scratch` names the box's own scratch file systems as the box
    sees them, whose files count as memory. Stop it with `stop`, or use it in a with statement.
    """

    def __init__(
        self, pid: int, limits: BoxLimits, scratch: Sequence[str] = (), on_exceeded: Callable[[], None] | None = None
    ) -> None:
        self.pid, self.limits, self.scratch = pid, limits, tuple(scratch)
        self.exceeded: Exceeded | None = None
        self._on_exceeded = on_exceeded
        self._stopped = threading.Event()
        self._measured = (0, 0)  # bytes: of memory when it was last measured, and what was mapped then
        self._measure_at = 0.0
        self._thread = threading.Thread(target=self._run, name=f"watch {pid}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more. Everything may still run."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL_SECONDS):
            there = _tree(self.pid)
            if not there:
                return
            self.exceeded = self._too_much(there)
            if self.exceeded:
                kill_tree(self.pid)
                if self._on_exceeded:
                    self._on_exceeded()
                return

    def _too_much(self, there: Sequence[_Process]) -> Exceeded | None:
        if sum(process.threads for process in there) > self.limits.processes:
            return "processes"
        files, inodes = scratch(there[-1].pid, self.scratch, self.limits.disk_bytes)
        if inodes > self.limits.inodes:
            return "inodes"
        most = self.limits.memory_bytes
        mapped = sum(process.rss_bytes for process in there) + files  # never less than the memory: costs nothing
        now, (before, mapped_before) = time.monotonic(), self._measured
        if mapped <= most or (now < self._measure_at and mapped - mapped_before < (most - before) / 2):
            return None
        sizes = [_memory(process) for process in there]
        pss, shared = (sum(size[kind] for size in sizes) for kind in (0, 1))
        took = pss + max(0, files - shared)
        self._measured = took, mapped
        self._measure_at = now + min(1.0, max(0, most - took) / GROWTH_BYTES_PER_SECOND)
        return "memory" if took > most else None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
