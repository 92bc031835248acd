"""The grading service's door for one notebook: its record of verdicts, and the socket that a boxed kernel may knock at.

What is at the other end is a learner's code: it cannot choose a seed, have a source graded again until luck decides, or
keep the service busy without end.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from grader.classroom.service import Service, refusal, submitted, wanted
from grader.ranks.program import Limits
from grader.submission import BadRequest, Submission
from grader.verdict import Verdict

REQUEST_BYTES = 8 * 2**20
SOURCE_BYTES = 2**20
MOST_SOURCES = 8  # of one notebook, that differ
MOST_PLAYS = 64
PLAYED = Limits(cpu_seconds=5)  # what one run of play() may take here, where nobody looks on
MOST_CONNECTIONS = 4  # at a time


class Record:
    """Verdicts of one notebook's sources: each is graded once, and its verdict given again whenever it is asked for."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._lock = threading.Lock()
        self._verdicts: dict[tuple[str, str], Future[Verdict]] = {}

    def verdict(self, name: str, submission: Submission, most: int | None = None) -> Verdict:
        """The verdict on a source for the exercise of that name, or that has a function so called.

        Raises BadRequest, also where `most` sources have been graded already.
        """
        if len(submission.source) > SOURCE_BYTES:
            raise BadRequest(f"a solution may have at most {SOURCE_BYTES:,} characters")
        owner = wanted(name).name
        key = owner, submission.source.rstrip()
        with self._lock:
            known = self._verdicts.get(key)
            if known is None and most is not None and len(self._verdicts) >= most:
                raise BadRequest(f"this notebook has had {most} solutions graded, and no more are allowed here")
            future = known or self._verdicts.setdefault(key, Future())
        if known is None:
            try:
                future.set_result(self.service.grade(owner, submission))
            except BaseException as error:
                future.set_exception(error)
        return future.result()


class Door:
    """Serves a unix socket at `path` until it is closed. The folder of `path` must be nobody else's."""

    def __init__(self, service: Service, path: str, record: Record | None = None) -> None:
        self.path, self.record = path, record or Record(service)
        self._service = service
        self._plays = 0
        self._one_at_a_time = threading.Lock()
        self._room = threading.Semaphore(MOST_CONNECTIONS)
        self._open: set[socket.socket] = set()
        self._closed = False
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(path)
        self._socket.listen(MOST_CONNECTIONS)
        threading.Thread(target=self._accept, name="door", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            if not self._room.acquire(blocking=False):
                connection.close()
                continue
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="door", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
                while not self._closed and (line := lines.readline(REQUEST_BYTES + 1)):
                    if len(line) > REQUEST_BYTES:
                        connection.sendall(refusal("this request is too long").encode() + b"\n")
                        return
                    with self._one_at_a_time:
                        answer = self._answer(line)
                    connection.sendall(answer.encode() + b"\n")
        finally:
            self._open.discard(connection)
            self._room.release()

    def _answer(self, line: bytes) -> str:
        try:
            request: Any = json.loads(line)
        except (ValueError, RecursionError):
            return refusal("a request is a JSON object")
        if self._closed or not isinstance(request, dict):
            return refusal("a request is a JSON object")
        if "grade" not in request:
            if len(str(request.get("source"))) > SOURCE_BYTES:
                return refusal(f"a source may have at most {SOURCE_BYTES:,} characters")
            self._plays += 1
            if self._plays > MOST_PLAYS:
                return refusal(f"this notebook has called play() {MOST_PLAYS} times, and no more are allowed here")
            return self._service.answer({**request, "seed": None}, PLAYED)
        try:
            return self.record.verdict(request["grade"], submitted(request), MOST_SOURCES).report_json()
        except BadRequest as error:
            return refusal(str(error))
        except Exception as error:  # whatever a request brought about: the next one is served
            return refusal(f"this cannot be graded ({type(error).__name__}: {error})")

    def close(self) -> None:
        """Serve no more. What is being graded goes on, and is recorded."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def __enter__(self) -> Door:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
