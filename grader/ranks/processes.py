"""The gloo engine: real processes, forked from a warm host."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from grader.ranks import WORKER
from grader.ranks.program import Call, Limits, Program, Run
from grader.ranks.world import RealWorld
from grader.sandbox.warm import BoxFailed, Warm

LOOK_AGAIN_SECONDS = 1.0
DEFAULT_LIMITS = Limits()

__all__ = ["BoxFailed", "Processes"]


class Processes:
    """Runs programs on real processes, any number of worlds, from any thread. `backend` is "gloo" or "nccl"."""

    def __init__(self, warm: Warm | None = None, backend: str = "gloo") -> None:
        self._warm = warm or Warm(WORKER)
        self.name = backend
        self._lock = threading.Lock()
        self._worlds = 0
        self._idle_machine = False
        self._looked = float("-inf")

    def run(
        self, program: Program, ranks: int, calls: Sequence[Call], seed: int = 0, limits: Limits = DEFAULT_LIMITS
    ) -> Run:
        """Load the program in each of `ranks` processes, and make the calls one after another.

        The first call that does not finish ends the run. Every process is gone when this returns or raises.
        Raises BoxFailed when no process could be started.
        """
        with self._counted():
            box = self._warm.box(ranks, replace(limits.box, subreaper=program.apart), program.imported)
            try:
                return RealWorld(box, program, ranks, seed, limits, self._idle_machine, self.name).live(calls)
            finally:
                box.end()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Note how busy the machine is while nothing of ours runs."""
        self._warm.wait_until_ready()
        with self._lock:
            if not self._worlds and time.monotonic() - self._looked > LOOK_AGAIN_SECONDS:
                self._idle_machine = _busy_processes() <= (os.cpu_count() or 1)
            self._looked = time.monotonic()  # what we ran just now must not count as somebody else's
            self._worlds += 1
        try:
            yield
        finally:
            with self._lock:
                self._worlds -= 1

    def close(self) -> None:
        self._warm.close()


def _busy_processes() -> int:
    """How many threads want a processor at this moment; many where that cannot be known."""
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/stat") as stat:
        return int(next(line for line in stat if line.startswith("procs_running")).split()[1])
    return 1000
