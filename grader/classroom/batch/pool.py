"""Who grades a class: what is asked of a pool of workers and comes back, and the pool of this machine.

A worker is a grading service (see `grader.classroom.service`) that is asked for one job after the other.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from queue import SimpleQueue
from typing import Any, Protocol

from grader.classroom.lines import Process
from grader.sandbox import usage
from grader.verdict import Verdict

DEADLINE = 180.0  # seconds for one submission; a grading has limits of its own that end far sooner
COMMAND = (sys.executable, "-I", "-m", "grader.classroom.service")
TRIES = 2
_GIGABYTE = 1 << 30


@dataclass(frozen=True)
class Job:
    """One notebook of one learner, to be graded: plain data that can go to any process or machine.

    `source` is the text of the solution cell. Student and notebook only name the job.
    """

    student: str
    notebook: str
    exercise: str
    source: str
    seed: int
    deadline: float = DEADLINE

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Job:
        """The inverse of `to_json`."""
        return cls(**json.loads(line))


@dataclass(frozen=True)
class Done:
    """What came of a job: a verdict, or the reason why there is none. `worker` names who did it, for people."""

    job: Job
    verdict: Verdict | None
    problem: str = ""
    seconds: float = 0.0
    worker: str = ""

    def to_json(self) -> dict[str, Any]:
        """Without the job, for whoever has it."""
        what = {"problem": self.problem} if self.verdict is None else json.loads(self.verdict.report_json())
        return {**what, "seconds": self.seconds, "worker": self.worker}

    @classmethod
    def from_json(cls, job: Job, said: dict[str, Any]) -> Done:
        """The inverse of `to_json`. A verdict that is none is a problem."""
        seconds, worker = float(said.get("seconds", 0.0)), str(said.get("worker", ""))
        try:
            verdict = Verdict.from_json(said["verdict"], said["extra"]) if "verdict" in said else None
        except (ValueError, KeyError, TypeError):
            return cls(job, None, "the worker's answer could not be read", seconds, worker)
        return cls(job, verdict, str(said.get("problem", "")), seconds, worker)


class Pool(Protocol):
    """Workers on this machine or on others.

    A worker that dies or hangs is replaced, and what it was grading is tried once more; after that the job is done with
    a `problem` and no verdict. Neither ever raises out of `results`.
    """

    @property
    def about(self) -> str:
        """Who works, for people: "4 workers"."""

    def start(self, jobs: int) -> None:
        """So many jobs will come: let workers get ready for them. Returns at once, and need not be called."""

    def results(self, jobs: Sequence[Job]) -> Iterator[Done]:
        """Every job's result exactly once, in the order in which they are ready. Work begins with the call."""

    def close(self) -> None:
        """End every worker at once, with all that it started. May be called twice, and while `results` is running."""


class WorkerFailed(Exception):  # noqa: N818 - reads as what happened
    """A worker ended, hung, or could give no verdict."""


def cores() -> int:
    """How many workers this machine takes: one a core, as long as each has a gigabyte of memory."""
    return max(1, min(len(usage.processors()), usage.available_bytes() // _GIGABYTE))


class LocalPool:
    """So many worker processes on this machine, each with a thread here that waits for it."""

    def __init__(self, workers: int, command: Sequence[str] = COMMAND, tries: int = TRIES) -> None:
        self._command, self._tries = command, tries
        self._lock = threading.Lock()
        self._closed = False
        self._workers: list[Process | None] = [None] * workers
        self._free: SimpleQueue[int] = SimpleQueue()
        for number in range(workers):
            self._free.put(number)
        self._threads = ThreadPoolExecutor(workers, "worker")

    @property
    def about(self) -> str:
        return f"{len(self._workers)} worker{'s' * (len(self._workers) > 1)}"

    def start(self, jobs: int) -> None:
        for number in range(min(jobs, len(self._workers))):
            with contextlib.suppress(WorkerFailed):  # it is tried again when there is a job for it
                self._worker(number)

    def results(self, jobs: Sequence[Job]) -> Iterator[Done]:
        under_way = [self._threads.submit(self._done, job) for job in jobs]
        return (each.result() for each in as_completed(under_way))

    def _done(self, job: Job) -> Done:
        """Grade a job, if need be once more on a new worker."""
        number, began, problem = self._free.get(), time.monotonic(), ""
        try:
            for _ in range(self._tries):
                try:
                    verdict = _verdict(self._worker(number), job)
                except WorkerFailed as error:
                    problem = str(error)
                    self._drop(number)
                else:
                    return Done(job, verdict, "", time.monotonic() - began, f"worker {number + 1}")
            return Done(job, None, problem, time.monotonic() - began, f"worker {number + 1}")
        finally:
            self._free.put(number)

    def _worker(self, number: int) -> Process:
        with self._lock:
            if self._closed:
                raise WorkerFailed("the run was stopped")
            worker = self._workers[number]
            if worker is None:
                try:
                    worker = self._workers[number] = Process(self._command)
                except OSError as error:
                    raise WorkerFailed(f"no worker can be started ({error.strerror})") from None
            return worker

    def _drop(self, number: int) -> None:
        with self._lock:
            worker, self._workers[number] = self._workers[number], None
        if worker is not None:
            worker.end()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            workers = [worker for worker in self._workers if worker is not None]
            self._workers = [None] * len(self._workers)
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait()
        self._threads.shutdown()
        for worker in workers:
            worker.end()


def _verdict(worker: Process, job: Job) -> Verdict:
    """The verdict on one job. Raises WorkerFailed if there is none within the job's deadline."""
    worker.tell({"grade": job.exercise, "cells": [job.source], "seed": job.seed})
    try:
        answer = worker.hear(job.deadline)
        if answer is None:
            raise WorkerFailed(f"the grading took more than {job.deadline:g} seconds")
        if "error" in answer:
            raise WorkerFailed(str(answer["error"]))
        verdict = Verdict.from_json(answer["verdict"], answer["extra"])
    except EOFError:
        raise WorkerFailed(_why(worker)) from None
    except (ValueError, KeyError, TypeError):
        raise WorkerFailed("the worker's answer could not be read") from None
    if why := ungraded(verdict):
        raise WorkerFailed(why)
    return verdict


def ungraded(verdict: Verdict) -> str:
    """Why a check of it could not be judged, which is not the learner's doing; empty if all could."""
    broken = next((check for check in verdict.checks if check.status == "error"), None)
    said = broken.diagnosis.message if broken and broken.diagnosis else ""
    return said.removeprefix("Not graded: ").rstrip(".") or (f"{broken.name} could not be judged" if broken else "")


def _why(worker: Process) -> str:
    """Why the worker is gone."""
    said, status = worker.last_words()
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return f"the worker was ended by {signal.Signals(-status).name}"
    return f"the worker ended: {said}" if said else "the worker ended"
