"""The processes of one box, as the grading process hears them: messages, what they print, how they end.

What comes from there is a learner's to make up; who uses it reads it with care.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
from typing import Any

from grader.sandbox import frames
from grader.sandbox.limits import BoxLimits
from grader.sandbox.warm import Warm

# what reading an answer that no process of ours gives can raise
NONSENSE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)


def plain(told: Any, most: int = 1000) -> str:
    """Text that a learner's process made up, without what would be an order to a terminal or no XML."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(told)[:most])


class Beyond(Exception):  # noqa: N818 - reads as what happened
    """A limit of the whole box was passed, and the box has been ended: which, what was used, what is allowed."""

    def __init__(self, limit: str, used: float, allowed: float) -> None:
        super().__init__(limit)
        self.limit, self.used, self.allowed = limit, used, allowed


class Party:
    """Talks with the processes of a new box. Close it.

    `inbox` holds each process's messages that were not taken yet, `status` how those ended that have. Raises Beyond
    (limit "printing": bytes on one stdout), FrameError and what else nonsense from a box brings about.
    """

    def __init__(self, warm: Warm, processes: int, limits: BoxLimits, idle_seconds: float, stdout_bytes: int) -> None:
        self.stdout_bytes = stdout_bytes
        self.inbox: list[list[frames.Message]] = [[] for _ in range(processes)]
        self.printed = [{"stdout": bytearray(), "stderr": bytearray()} for _ in range(processes)]
        self.status: dict[int, int] = {}
        self._readers = [frames.Reader() for _ in range(processes)]
        self.box = warm.box(processes, limits)
        self._watch = selectors.DefaultSelector()
        self._watch.register(self.box.keeper, selectors.EVENT_READ, ("keeper", -1))
        for number in range(processes):
            self.box.frames[number].settimeout(idle_seconds)  # for one that does not read what it is sent
            for kind, source in (
                ("frames", self.box.frames), ("stdout", self.box.stdout), ("stderr", self.box.stderr),
            ):  # fmt: skip
                self._watch.register(source[number], selectors.EVENT_READ, (kind, number))

    def post(self, number: int, header: dict[str, Any], blob: bytes = b"") -> None:
        """Send a process a message. Nothing where it ended: the keeper says how."""
        with contextlib.suppress(OSError):
            self.box.frames[number].sendall(frames.pack_message(header, blob))

    def end(self, number: int) -> None:
        """Kill one process; the others go on."""
        with contextlib.suppress(OSError):
            self.box.keeper.send(b"end %d" % number)

    def read(self, timeout: float) -> bool:
        """Read what there is, after at most so many seconds. Returns whether a message may have come."""
        news = False
        for key, _ in self._watch.select(timeout):
            kind, number = key.data
            if kind == "keeper":
                self._keeper_says(self.box.keeper.recv(65536))
                continue
            try:
                data = os.read(key.fd, 2**18)
            except (BlockingIOError, ConnectionResetError):
                data = b""
            if not data:
                self._watch.unregister(key.fileobj)
            elif kind == "frames":
                news = True
                self._feed(number, data)
            else:
                kept = self.printed[number][kind]
                kept += data[: self.stdout_bytes - len(kept)]
                if kind == "stdout" and len(kept) >= self.stdout_bytes:
                    raise Beyond("printing", len(kept), self.stdout_bytes)
        return news

    def _feed(self, number: int, data: bytes) -> None:
        for frame in self._readers[number].feed(data):
            if isinstance(frame, frames.Message):
                self.inbox[number].append(frame)

    def _keeper_says(self, data: bytes) -> None:
        if not data:
            self._watch.unregister(self.box.keeper)
            for number in range(len(self.inbox)):
                self.status.setdefault(number, 70)
            return
        told = json.loads(data)
        if "cpu" in told:
            self.box.cpu = told["cpu"]
        elif "limit" in told:
            raise Beyond(told["limit"], told["used"], told["allowed"])
        elif "status" in told:
            while self._feed_now(told["rank"]):
                pass
            self.status[told["rank"]] = told["status"]

    def _feed_now(self, number: int) -> bool:
        """Take what a process sent before it ended."""
        try:
            data = self.box.frames[number].recv(2**18, socket.MSG_DONTWAIT)
        except OSError:
            return False
        self._feed(number, data)
        return bool(data)

    def close(self) -> None:
        """End the box."""
        self._watch.close()
        self.box.end()
