"""What runs on each machine of a cluster: a look at what grades there, and one slot that grades jobs.

Only JSON text goes in and out. A slot is a Ray actor that does nothing but keep a worker process and talk to it, so
that what grades has nothing of Ray in it and ends with the slot, however that ends.
"""

from __future__ import annotations

import json
import sys

from grader.classroom.batch.pool import Job, LocalPool, cores
from grader.classroom.version import version
from grader.sandbox import modes

# finds the package where the slot itself did, which -I might not
COMMAND = (sys.executable, "-s", "-P", "-m", "grader.classroom.service")


def look() -> str:
    """What there is here, as JSON: the version, how well submissions are isolated, how many can be graded at a time."""
    mode = modes.mode()
    why = "" if mode == "full" else modes.why_not("full") or f"the mode is {mode}"
    return json.dumps({"version": version(), "mode": mode, "why": why, "cores": cores()})


class Slot:
    """Grades one job at a time, in a worker process that stays warm; in a process of its own.

    Unless submissions are trusted there is no box at all rather than one that is not shut.
    """

    def __init__(self, trust: bool) -> None:
        if not trust:
            modes.require_full()
        self._pool = LocalPool(1, COMMAND, tries=1)

    def get_ready(self) -> None:
        """Start the worker, if there is none."""
        self._pool.start(1)

    def grade(self, line: str) -> str:
        """One try at a job (`Job.to_json`); the answer is `Done.to_json`, without who did it."""
        [done] = self._pool.results([Job.from_json(line)])
        return json.dumps(done.to_json())
