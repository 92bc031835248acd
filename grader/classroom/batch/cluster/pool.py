"""A pool of workers on the machines of a Ray cluster.

All that is Ray's is in a process of its own (see `driver`), which this one talks to in lines of JSON: Ray ends
the process that it lives in when the cluster's head is lost, writes to the terminal and takes signals for itself, and
none of that must happen to the process that writes the gradebook.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from grader.classroom.batch.pool import Done, Job
from grader.submission import BadRequest
from grader.verdict import Verdict

DRIVER = (sys.executable, "-I", "-m", "grader.classroom.batch.cluster.driver")
CONNECT_SECONDS = 180.0  # with a look at every machine; Ray itself gives up earlier, if it does
_REACH_SECONDS = 10.0
_END_SECONDS = 10.0
_ADDRESS = re.compile(r"(?P<host>[^/\s:]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")
_PREFIX = re.compile(r"^\[[^]]*\] \S+ ")  # of a line that Ray's C++ part logs
_PIECE = 1 << 20
# Ray's: it sends no statistics, and does not look for a cluster on this machine for a whole minute
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_gcs_server_request_timeout_seconds": "20"}


def open_pool(address: str = "", workers: int | None = None, trust: bool = False) -> ClusterPool:
    """Connect to a running cluster: so many workers at most, on machines that isolate submissions or are trusted.

    `address` is HOST:PORT, or empty for $RAY_ADDRESS or else the cluster that runs on this machine. Raises BadRequest.
    """
    if importlib.util.find_spec("ray") is None:
        raise BadRequest("--engine ray needs Ray, which is not installed: pip install 'rankup[cluster]'")
    address = address or os.environ.get("RAY_ADDRESS") or "auto"
    _reachable(address)
    wanted = json.dumps({"address": address, "workers": workers, "trust": trust})
    pool = ClusterPool((*DRIVER, wanted))
    try:
        pool.connect(address)
    except BaseException:
        pool.close()
        raise
    return pool


def _reachable(address: str) -> None:
    """Raises BadRequest where there can be no cluster: Ray would say so after a minute, and in many words."""
    if address == "auto":
        return
    if address.startswith("ray://"):
        raise BadRequest(
            f"{address} is the address of a Ray client server; run this on a machine of the cluster and give HOST:PORT"
        )
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 65536:
        raise BadRequest(f"{address!r} is not the address of a Ray cluster: it looks like HOST:PORT")
    try:
        socket.create_connection((found["host"].strip("[]"), int(found["port"])), _REACH_SECONDS).close()
    except OSError as error:
        raise BadRequest(
            f"no Ray cluster answers at {address} ({error.strerror or error}): `ray start --head` starts one"
        ) from None


class ClusterPool:
    """Workers on a cluster, as `grader.classroom.batch.pool.Pool` says. Results must be read before more are wanted.

    `remarks` are sentences about machines, for whoever wants the class graded.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.about = "a Ray cluster"
        self.remarks: tuple[str, ...] = ()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._rest = b""
        self._closed = False
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **_SETTINGS},
            cwd="/",  # Ray lets every worker import from here
            start_new_session=True,  # Ctrl-C in the terminal is for us to handle
        )

    def connect(self, address: str) -> None:
        """Wait until the cluster's machines were looked at. Raises BadRequest if they cannot be used."""
        said = self._line(CONNECT_SECONDS)
        if said is None:
            raise BadRequest(f"the Ray cluster at {address} did not answer within {CONNECT_SECONDS:g} seconds")
        if not said:
            raise BadRequest(f"no connection to the Ray cluster at {address} ({self._last_words()})")
        if "refused" in said:
            raise BadRequest(str(said["refused"]))
        self.about, self.remarks = str(said["about"]), tuple(map(str, said["remarks"]))

    def start(self, jobs: int) -> None:
        self._tell({"start": jobs})

    def results(self, jobs: Sequence[Job]) -> Iterator[Done]:
        self._tell({"jobs": [job.to_json() for job in jobs]})
        return self._gathered(dict(enumerate(jobs)))

    def _gathered(self, left: dict[int, Job]) -> Iterator[Done]:
        while left:
            said = self._line()
            if not said:
                problem = "the run was stopped" if self._closed else f"the Ray cluster was lost ({self._last_words()})"
                for job in left.values():
                    yield Done(job, None, problem)
                return
            if "about" in said:
                self.about = str(said["about"])
            elif int(said["number"]) in left:
                yield _done(left.pop(int(said["number"])), said)

    def _tell(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it is gone: that is found when its answer is read
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()

    def _line(self, seconds: float | None = None) -> dict[str, Any] | None:
        """What is said next; {} if that is nothing any more, None if it does not come in time."""
        assert self._process.stdout is not None
        until = None if seconds is None else time.monotonic() + seconds
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            try:
                left = None if until is None else max(0.0, until - time.monotonic())
                if not select.select([self._process.stdout], [], [], left)[0]:
                    return None
                piece = os.read(self._process.stdout.fileno(), _PIECE)
            except (OSError, ValueError):  # closed meanwhile
                piece = b""
            if not piece:
                return {}
            parts.append(piece)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        return said

    def _last_words(self) -> str:
        """Why the other process is gone, as far as it said."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            if lines:
                return _PREFIX.sub("", lines[-1].strip()).partition(". ")[0].rstrip(".")
        return f"status {self._process.returncode}"

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()  # it ends all workers, and itself
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()


def _done(job: Job, said: dict[str, Any]) -> Done:
    """What came of a job, as the other process says."""
    seconds, worker = float(said.get("seconds", 0.0)), str(said.get("worker", ""))
    if "verdict" not in said:
        return Done(job, None, str(said.get("problem", "")), seconds, worker)
    try:
        return Done(job, Verdict.from_report(json.dumps(said["verdict"])), "", seconds, worker)
    except (ValueError, KeyError, TypeError):
        return Done(job, None, "the worker's answer made no sense", seconds, worker)
