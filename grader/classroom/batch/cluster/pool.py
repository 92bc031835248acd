"""A pool of workers on the machines of a Ray cluster.

All that is Ray's is in a process of its own (see `driver`), which this one talks to in lines of JSON: Ray ends
the process that it lives in when the cluster's head is lost, writes to the terminal and takes signals for itself, and
none of that must happen to the process that writes the gradebook.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence

from grader.classroom.batch.pool import Done, Job
from grader.classroom.lines import Process
from grader.submission import BadRequest

DRIVER = (sys.executable, "-I", "-m", "grader.classroom.batch.cluster.driver")
CONNECT_SECONDS = 180.0  # with a look at every machine; Ray itself gives up earlier, if it does
_REACH_SECONDS = 10.0
_END_SECONDS = 10.0
_ADDRESS = re.compile(r"(?P<host>[^/\s:]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})")
_PREFIX = re.compile(r"^\[[^]]*\] \S+ ")  # of a line that Ray's C++ part logs
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
            f"{address} is the address of a Ray client server; run this on a machine of the cluster, and give HOST:PORT"
        )
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 65536:
        raise BadRequest(f"{address!r} is not the address of a Ray cluster: write it as HOST:PORT")
    try:
        socket.create_connection((found["host"].strip("[]"), int(found["port"])), _REACH_SECONDS).close()
    except OSError as error:
        raise BadRequest(
            f"no Ray cluster answers at {address} ({error.strerror or error}): `ray start --head` starts one"
        ) from None


class ClusterPool(Process):
    """Workers on a cluster, as `grader.classroom.batch.pool.Pool` says. Results must be read before more are wanted.

    `remarks` are sentences about machines, for whoever wants the class graded.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.about = "a Ray cluster"
        self.remarks: tuple[str, ...] = ()
        self._closed = False
        super().__init__(command, {**os.environ, **_SETTINGS}, cwd="/")  # Ray lets every worker import from there

    def connect(self, address: str) -> None:
        """Wait until the cluster's machines were looked at. Raises BadRequest if they cannot be used."""
        try:
            said = self.hear(CONNECT_SECONDS)
        except EOFError:
            raise BadRequest(f"no connection to the Ray cluster at {address} ({self._why()})") from None
        if said is None:
            raise BadRequest(f"the Ray cluster at {address} did not answer within {CONNECT_SECONDS:g} seconds")
        if "refused" in said:
            raise BadRequest(str(said["refused"]))
        self.about, self.remarks = str(said["about"]), tuple(map(str, said["remarks"]))

    def start(self, jobs: int) -> None:
        self.tell({"start": jobs})

    def results(self, jobs: Sequence[Job]) -> Iterator[Done]:
        self.tell({"jobs": [job.to_json() for job in jobs]})
        return self._gathered(dict(enumerate(jobs)))

    def _gathered(self, left: dict[int, Job]) -> Iterator[Done]:
        while left:
            try:
                said = self.hear() or {}
            except EOFError:
                problem = "the run was stopped" if self._closed else f"the Ray cluster was lost ({self._why()})"
                yield from [Done(job, None, problem) for job in left.values()]
                return
            if "about" in said:
                self.about = str(said["about"])
            elif int(said["number"]) in left:
                yield Done.from_json(left.pop(int(said["number"])), said)

    def _why(self) -> str:
        """Why the other process is gone, as far as it said."""
        said, status = self.last_words()
        return _PREFIX.sub("", said).partition(". ")[0].rstrip(".") or f"status {status}"

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.finish(_END_SECONDS)  # it ends all workers, and itself
