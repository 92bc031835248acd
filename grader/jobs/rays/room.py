"""The grading process's side of a Ray in a box: start it once, lend it to one grading after another, end it.

What comes from there is a learner's to make up, except what the nursery says of its own: which process spoke, and
which has gone.
"""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from typing import Any

from grader.sandbox import frames, modes
from grader.sandbox.client import Client, Gone, Overdue, Patience, plain
from grader.sandbox.limits import MIB, BoxLimits
from grader.sandbox.warm import Warm
from grader.trace.trouble import NotPlayed

CPUS = 4  # logical ones: so many tasks run at the same time, also on fewer cores
STORE_BYTES = 96 * MIB
LIMITS = BoxLimits(
    memory_bytes=6144 * MIB, processes=3000, disk_bytes=512 * MIB, inodes=20_000, open_files=4096,
    file_bytes=256 * MIB, cpu_seconds=7200, subreaper=True, unix_sockets=True,
)  # fmt: skip
START_SECONDS = 120.0
STDOUT_BYTES = 2**20
NOT_INSTALLED = "Not run: this check needs Ray, which is not installed. Install it with: pip install 'rankup[jobs]'"


class Room:
    """One Ray, in a box of its own. Used by one grading at a time; close it."""

    def __init__(self, warm: Warm) -> None:
        self._client = Client(warm.box(1, LIMITS), 10.0, STDOUT_BYTES)
        self._client.post(0, {"program": "ray", "cpus": CPUS, "store_bytes": STORE_BYTES})
        told = self.hear(time.monotonic() + START_SECONDS)
        if told is None or told.header.get("event") != "up":
            self.close()
            why = plain(told.header.get("text", ""), 300) if told is not None else "it took too long"
            raise NotPlayed(f"Not run: Ray did not start here ({why or 'no reason was given'}).")

    @property
    def alive(self) -> bool:
        return 0 not in self._client.status

    def post(self, header: dict[str, Any]) -> None:
        self._client.post(0, header)

    def hear(self, deadline: float) -> frames.Message | None:
        """The next message; None where none came in time. Raises ConnectionError where the box is gone, and Beyond."""
        try:
            return self._client.wait(0, Patience(wall=deadline - time.monotonic()))
        except Gone:
            raise ConnectionError from None
        except Overdue:
            return None

    def printed(self, anew: bool = False) -> str:
        """What was printed; `anew` forgets it."""
        text = self._client.printed.text("stdout")
        if anew:
            self._client.printed.forget()
        return text

    def close(self) -> None:
        self._client.close()


class Rays:
    """The Ray of one `Engines`: started when it is first needed, and again where it broke."""

    def __init__(self, warm: Warm, shared: bool | None = None) -> None:
        """With `shared`, gradings use one Ray in turns; else each gets one that nobody has used before: the default
        where a class is graded."""
        self._warm = warm
        self._shared = os.environ.get(modes.LEAST) != "full" if shared is None else shared
        self._lock = threading.Lock()
        self._room: Room | None = None

    def take(self) -> Room:
        """Wait until it is ours, and start it if need be. Raises NotPlayed where there is no Ray; give it back."""
        if importlib.util.find_spec("ray") is None:
            raise NotPlayed(NOT_INSTALLED)
        self._lock.acquire()
        try:
            if self._room is None or not self._room.alive:
                self.drop()
                self._room = Room(self._warm)
        except BaseException:
            self._lock.release()
            raise
        return self._room

    def give_back(self, whole: bool) -> None:
        """`whole` says whether it can be used again."""
        if not whole or not self._shared:
            self.drop()
        self._lock.release()

    def drop(self) -> None:
        if self._room is not None:
            self._room.close()
            self._room = None

    def close(self) -> None:
        self.drop()
