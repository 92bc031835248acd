"""Memory and open files of a run's long-lived processes, followed as it goes on."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from _faults import hosts, workers

_EVERY = 1.0  # seconds between two looks
_PAGE = os.sysconf("SC_PAGE_SIZE")
KINDS = ("command", "worker", "host")


@dataclass
class Life:
    """One process: its kind, and what was seen of it, as (seconds, bytes of memory, open files)."""

    kind: str
    samples: list[tuple[float, int, int]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return self.samples[-1][0] - self.samples[0][0]

    def told(self) -> dict[str, Any]:
        """Memory and open files when it had lived a while, and at last.

        Of memory the median of a fifth of its life; of open files the least, since a grading opens many for a moment.
        """
        fifth = max(1, len(self.samples) // 5)
        early, late = self.samples[fifth : 2 * fifth] or self.samples[:1], self.samples[-fifth:]
        first, last = (median(sample[1] for sample in part) for part in (early, late))
        files = [min(sample[2] for sample in part) for part in (early, late)]
        return {
            "kind": self.kind, "seconds": self.seconds, "first_bytes": first, "last_bytes": last,
            "first_files": files[0], "last_files": files[1],
        }  # fmt: skip


class Follower:
    """Looks at the processes of a run, once a second at most."""

    def __init__(self) -> None:
        self.lives: dict[int, Life] = {}
        self._looked = 0.0

    def look(self, pid: int) -> None:
        """`pid` is the run's first process."""
        now = time.monotonic()
        if now - self._looked < _EVERY:
            return
        self._looked = now
        self._see(pid, "command", now)
        for worker in workers(pid):
            self._see(worker, "worker", now)
            for host in hosts(worker)[-1:]:
                self._see(host, "host", now)

    def _see(self, pid: int, kind: str, now: float) -> None:
        try:
            with open(f"/proc/{pid}/statm") as statm:
                memory = int(statm.read().split()[1]) * _PAGE
            files = len(os.listdir(f"/proc/{pid}/fd"))
        except (OSError, IndexError):
            return  # gone, or somebody else's by now
        life = self.lives.setdefault(pid, Life(kind))
        life.samples.append((now, memory, files))

    def longest(self) -> list[dict[str, Any]]:
        """Of each kind, the process that lived longest."""
        found = []
        for kind in KINDS:
            lives = [life for life in self.lives.values() if life.kind == kind]
            if lives:
                found.append(max(lives, key=lambda life: life.seconds).told())
        return found
