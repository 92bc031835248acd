"""The watchdog that ends a tree of processes when it takes too much of the machine."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Literal

from grader.sandbox import usage as proc
from grader.sandbox.limits import BoxLimits
from grader.sandbox.supervise import kill_tree

Exceeded = Literal["memory", "processes", "inodes"]

INTERVAL_SECONDS = 0.05
GROWTH_BYTES_PER_SECOND = 2 * 2**30 * (os.cpu_count() or 1)  # no process gets memory faster than that
_PAGE = os.sysconf("SC_PAGE_SIZE")


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


def _memory(folder: int, process: proc.Process) -> tuple[int, int]:
    """As `usage.proportional_bytes`; where that may not be read, all that the process has mapped counts."""
    found = proc.proportional_bytes(folder, process.pid)
    return (process.resident_bytes, 0) if found is None else found


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
            with proc.machine() as folder:
                there = proc.tree(folder, self.pid)
                if not there:
                    return
                self.exceeded = self._too_much(folder, there)
            if self.exceeded:
                kill_tree(self.pid)
                if self._on_exceeded:
                    self._on_exceeded()
                return

    def _too_much(self, folder: int, there: Sequence[proc.Process]) -> Exceeded | None:
        if sum(process.threads for process in there) > self.limits.processes:
            return "processes"
        files, inodes = scratch(there[-1].pid, self.scratch, self.limits.disk_bytes)
        if inodes > self.limits.inodes:
            return "inodes"
        most = self.limits.memory_bytes
        mapped = sum(process.resident_bytes for process in there) + files  # never less than the memory: costs nothing
        now, (before, mapped_before) = time.monotonic(), self._measured
        if mapped <= most or (now < self._measure_at and mapped - mapped_before < (most - before) / 2):
            return None
        sizes = [_memory(folder, process) for process in there]
        pss, shared = (sum(size[kind] for size in sizes) for kind in (0, 1))
        took = pss + max(0, files - shared)
        self._measured = took, mapped
        self._measure_at = now + min(1.0, max(0, most - took) / GROWTH_BYTES_PER_SECOND)
        return "memory" if took > most else None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
