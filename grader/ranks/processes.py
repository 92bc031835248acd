"""The gloo engine: real processes, forked from a warm host."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence

from grader.ranks import WORKER
from grader.ranks.program import Call, Limits, Program, Run
from grader.ranks.world import World
from grader.sandbox.warm import Box, BoxFailed, Warm

LOOK_AGAIN_SECONDS = 1.0
DEFAULT_LIMITS = Limits()

__all__ = ["BoxFailed", "Crew", "Processes"]


class Processes:
    """Runs programs on real gloo processes. One warm host, any number of worlds, from any thread."""

    name = "gloo"

    def __init__(self, warm: Warm | None = None) -> None:
        self._warm = warm or Warm(WORKER)
        self._lock = threading.Lock()
        self._worlds = 0
        self._idle_machine = False
        self._looked = float("-inf")

    def run(
        self,
        program: Program,
        ranks: int,
        calls: Sequence[Call],
        seed: int = 0,
        limits: Limits = DEFAULT_LIMITS,
        crew: Crew | None = None,
    ) -> Run:
        """Load the program in each of `ranks` processes, and make the calls one after another.

        The first call that does not finish ends the run. Without a crew the processes are this run's own, and gone
        when this returns or raises. Raises BoxFailed when no process could be started.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._counted())
            box = crew.box(ranks) if crew else stack.enter_context(self._own_box(ranks))
            world = World(box, program, ranks, seed, limits, self._idle_machine)
            run = world.live(calls)
            if crew and not world.clean:
                crew.dismiss()
        return run

    @contextlib.contextmanager
    def crew(self, ranks: int) -> Iterator[Crew]:
        """Processes that serve several runs of one submission, as long as each ends well; gone at the end."""
        crew = Crew(self._warm, ranks)
        try:
            yield crew
        finally:
            crew.dismiss()

    @contextlib.contextmanager
    def _own_box(self, ranks: int) -> Iterator[Box]:
        box = self._warm.box(ranks)
        try:
            yield box
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


class Crew:
    """Up to so many rank processes, started when first needed and anew after a run that did not end well."""

    def __init__(self, warm: Warm, ranks: int) -> None:
        self._warm, self._ranks = warm, ranks
        self._box: Box | None = None

    def box(self, ranks: int) -> Box:
        """A box with at least `ranks` ranks. Raises ValueError for more than the crew has."""
        if ranks > self._ranks:
            raise ValueError(f"a crew of {self._ranks} cannot be {ranks} ranks")
        if self._box is None:
            self._box = self._warm.box(self._ranks)
        return self._box

    def dismiss(self) -> None:
        """End every process of the crew."""
        if self._box is not None:
            self._box.end()
            self._box = None


def _busy_processes() -> int:
    """How many threads want a processor at this moment; many where that cannot be known."""
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/stat") as stat:
        return int(next(line for line in stat if line.startswith("procs_running")).split()[1])
    return 1000
