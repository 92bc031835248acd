"""Whole messages between two processes of ours, descriptors among them, by a stream: not every system has sockets that
keep messages apart.

A message is its length, four bytes, and what it says, sent at once.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

_LENGTH = struct.Struct("!I")


class Packets:
    """One end. Close it."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self.fileno, self.close, self.detach, self.settimeout = end.fileno, end.close, end.detach, end.settimeout

    def put(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send a message. Raises OSError where nobody is there."""
        whole = _LENGTH.pack(len(data)) + data
        sent = socket.send_fds(self._end, [whole], list(descriptors)) if descriptors else 0
        self._end.sendall(whole[sent:])

    def take(self) -> bytes:
        """The next message; empty at the end. Raises OSError."""
        return self.take_with(0)[0]

    def take_with(self, most: int) -> tuple[bytes, list[int]]:
        """The same, and the descriptors that came with it, at most so many."""
        length, descriptors, *_ = socket.recv_fds(self._end, _LENGTH.size, most)
        length += self._exactly(_LENGTH.size - len(length)) if length else b""
        return self._exactly(_LENGTH.unpack(length)[0]) if len(length) == _LENGTH.size else b"", descriptors

    def _exactly(self, size: int) -> bytes:
        """So many bytes; none where the end comes before."""
        data = b""
        while len(data) < size:
            more = self._end.recv(size - len(data))
            if not more:
                return b""
            data += more
        return data


def pair() -> tuple[Packets, Packets]:
    """Both ends of a connection."""
    ours, theirs = socket.socketpair()
    return Packets(ours), Packets(theirs)


def of(descriptor: int) -> Packets:
    """The end that has this descriptor."""
    return Packets(socket.socket(fileno=descriptor))
