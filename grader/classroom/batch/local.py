"""A pool of worker processes on this machine: one thread here watches over each of them."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence

from grader.classroom.batch.pool import Done, Job
from grader.sandbox.supervise import tree
from grader.verdict import Verdict

COMMAND = (sys.executable, "-I", "-m", "grader.classroom.batch.worker")
TRIES = 2
_GIGABYTE = 1 << 30
_PIECE = 1 << 20
PATIENCE = 10.0  # seconds for what a worker started to end after it


class WorkerFailed(Exception):  # noqa: N818 - reads as what happened
    """A worker ended, hung, or said something that is no answer."""


def cores() -> int:
    """How many workers this machine takes: one a core, as long as each has a gigabyte of memory."""
    usable = len(os.sched_getaffinity(0))
    try:
        with open("/proc/meminfo") as meminfo:
            free = next(int(line.split()[1]) * 1024 for line in meminfo if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return usable
    return max(1, min(usable, free // _GIGABYTE))


class Worker:
    """One worker process, and the pipes to it."""

    def __init__(self, command: Sequence[str]) -> None:
        with contextlib.ExitStack() as stack:
            self._errors = stack.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,  # Ctrl-C in the terminal is for us to handle
            )
            stack.pop_all()  # closed in end()
        self._read = b""
        self._below: list[int] | None = None  # process descriptors of what it started, once it is to end

    def grade(self, job: Job) -> Verdict:
        """The verdict on one job. Raises WorkerFailed if there is none within the job's deadline."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(job.to_json().encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise WorkerFailed(self._why()) from None
        line = self._line(time.monotonic() + job.deadline)
        if line is None:
            raise WorkerFailed(f"it was not done after {job.deadline:g} seconds")
        try:
            answer = json.loads(line)
            if "problem" in answer:
                raise WorkerFailed(str(answer["problem"]))
            return Verdict.from_report(json.dumps(answer["verdict"]))
        except (ValueError, KeyError, TypeError):
            raise WorkerFailed("the worker's answer made no sense") from None

    def _line(self, until: float) -> bytes | None:
        """The next line that the worker writes; None if it does not come in time."""
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        parts = [self._read]
        while b"\n" not in parts[-1]:
            if not _readable(pipe, until - time.monotonic()):
                return None
            piece = os.read(pipe, _PIECE)
            if not piece:
                raise WorkerFailed(self._why())
            parts.append(piece)
        line, _, self._read = b"".join(parts).partition(b"\n")
        return line

    def _why(self) -> str:
        """Why the worker is gone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        status = self._process.returncode
        if status is not None and status < 0:
            with contextlib.suppress(ValueError):
                return f"the worker was ended by {signal.Signals(-status).name}"
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
            if said:
                return f"the worker ended: {said[-1]}"
        return "the worker ended"

    def kill(self) -> None:
        """Make it end, with everything that it started; whoever reads from it sees end of file."""
        if self._below is None:
            self._below = [fd for pid in tree(self._process.pid)[1:] if (fd := _open(pid)) is not None]
            self._process.kill()

    def wait(self) -> None:
        """Kill it, and wait until the last of what it started is gone."""
        self.kill()
        self._process.wait()
        until = time.monotonic() + PATIENCE  # they end by themselves: the sockets of the worker are closed
        for fd in self._below or ():
            if not _readable(fd, until - time.monotonic()):
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
                    _readable(fd, PATIENCE)
            os.close(fd)
        self._below = []

    def end(self) -> None:
        """Kill it, wait until all of it is gone, and close what leads to it: nobody may read from it any more."""
        self.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._errors.close()


def _readable(fd: int, seconds: float) -> bool:
    """Wait so long until there is something to read, or an end of it: for a process's descriptor, until it is gone."""
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(max(0.0, seconds * 1000)))


def _open(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


class LocalPool:
    """So many worker processes on this machine, as `grader.classroom.batch.pool.Pool` says."""

    def __init__(self, workers: int, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._closed = False
        self._workers: list[Worker | None] = [None] * workers
        self._threads: list[threading.Thread] = []

    @property
    def about(self) -> str:
        return f"{len(self._workers)} worker{'s' * (len(self._workers) > 1)}"

    def start(self, jobs: int) -> None:
        for number in range(min(jobs, len(self._workers))):
            with contextlib.suppress(WorkerFailed):  # it is tried again when there is a job for it
                self._worker(number)

    def results(self, jobs: Sequence[Job]) -> Iterator[Done]:
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        done: queue.SimpleQueue[Done | BaseException] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        for number in range(min(len(self._workers), len(jobs))):
            thread = threading.Thread(target=self._serve, args=(number, waiting, done), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self._gathered(done, len(jobs))

    def _gathered(self, done: queue.SimpleQueue[Done | BaseException], count: int) -> Iterator[Done]:
        for _ in range(count):
            each = done.get()
            if isinstance(each, BaseException):
                raise each
            yield each

    def _serve(
        self, number: int, waiting: queue.SimpleQueue[Job], done: queue.SimpleQueue[Done | BaseException]
    ) -> None:
        try:
            while not waiting.empty():  # nobody adds to it, but others take from it
                with contextlib.suppress(queue.Empty):
                    done.put(self._tried(number, waiting.get_nowait()))
        except BaseException as error:  # whoever waits for results must not wait for ever
            done.put(error)

    def _tried(self, number: int, job: Job) -> Done:
        """Grade a job, if need be a second time on a new worker."""
        began, problem, name = time.monotonic(), "", f"worker {number + 1}"
        for _ in range(TRIES):
            try:
                verdict = self._worker(number).grade(job)
            except WorkerFailed as error:
                problem = str(error)
                self._drop(number)
            else:
                return Done(job, verdict, "", time.monotonic() - began, name)
        return Done(job, None, problem, time.monotonic() - began, name)

    def _worker(self, number: int) -> Worker:
        with self._lock:
            if self._closed:
                raise WorkerFailed("the run was stopped")
            worker = self._workers[number]
            if worker is None:
                try:
                    worker = self._workers[number] = Worker(self._command)
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
        for thread in self._threads:
            thread.join()
        self._threads = []
        for worker in workers:
            worker.end()
