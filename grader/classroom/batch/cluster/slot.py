"""What runs on each machine of a cluster: a look at what grades there, and one slot that grades jobs.

Only JSON text goes in and out. A slot is a Ray actor that does nothing but keep a worker process (see `worker`) and
talk to it, so that what grades has nothing of Ray in it and ends with the slot, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time

from grader.classroom.batch.local import Worker, WorkerFailed, cores
from grader.classroom.batch.pool import Job
from grader.classroom.version import version
from grader.sandbox import modes

# finds the package where the slot itself did, which -I might not
COMMAND = (sys.executable, "-s", "-P", "-m", "grader.classroom.batch.worker")


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
        self._worker: Worker | None = None

    def get_ready(self) -> None:
        """Start the worker, if there is none."""
        with contextlib.suppress(OSError):  # it is tried again when there is a job for it
            self._worker = self._worker or Worker(COMMAND)

    def grade(self, line: str) -> str:
        """One try at a job (`Job.to_json`).

        The answer is {"verdict": what `Verdict.report_json` gives} or {"problem": sentence}, with the seconds it took.
        A worker that failed, or hung for longer than the job's deadline, is replaced.
        """
        began = time.monotonic()
        answer: dict[str, object] = {}
        try:
            self._worker = self._worker or Worker(COMMAND)
            answer["verdict"] = json.loads(self._worker.grade(Job.from_json(line)).report_json())
        except WorkerFailed as error:
            answer["problem"] = str(error)
        except OSError as error:
            answer["problem"] = f"no worker can be started ({error.strerror})"
        if "problem" in answer and self._worker is not None:
            worker, self._worker = self._worker, None
            worker.end()
        return json.dumps({**answer, "seconds": time.monotonic() - began})
