"""Where processes in the box say what they are about to do, and wait for what the grading process makes of it.

Used by harnesses, in drivers and in Ray's workers; the nursery is at the other end, and passes it on.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

from grader.sandbox import frames

PATH = "RANKUP_GATE"  # the environment variable that says where it is


class Line:
    """A socket to one of our processes, or from one that comes to the gate."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel, self._reader = channel, frames.Reader()

    def read(self) -> list[frames.Message] | None:
        """What has come; None at the end of file, and for what is no message."""
        try:
            data = self.channel.recv(2**20)
            messages = [frame for frame in self._reader.feed(data) if isinstance(frame, frames.Message)]
        except (OSError, frames.FrameError):
            return None
        return messages if data else None

    def post(self, header: dict[str, Any], blob: bytes = b"") -> None:
        with contextlib.suppress(OSError):
            self.channel.sendall(frames.pack_message(header, blob))


def tell(**said: Any) -> Any:
    """Say something, as plain JSON, and wait for the answer. Raises ConnectionError where nobody grades any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.connect(os.environ[PATH])
        channel.sendall(frames.pack_message(said))
        reader = frames.Reader()
        while data := channel.recv(2**16):
            for answer in reader.feed(data):
                if isinstance(answer, frames.Message):
                    return answer.header.get("answer")
    raise ConnectionError("nobody grades any more")
