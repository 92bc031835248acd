"""The frame protocol between a rank and the grading process: JSON headers, raw tensor bytes, event records.

A frame is one kind byte, a little-endian u32 length, and a body. Kind `J`: u32 header length, JSON header, raw bytes.
Kind `E`: a whole number of fixed-size event records. Nothing that is read here is ever unpickled or evaluated, and
whatever does not fit raises FrameError: the bytes come from a learner's process.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_HEAD = struct.Struct("<cI")
_LENGTH = struct.Struct("<I")
MAX_FRAME = 256 * 2**20
MAX_BITS = 1024  # of an integer
MAX_HEADER = 8 * 2**20  # bytes of JSON, which takes thirty times as much memory once it is read
MOST_NAME = 100  # characters of a type's name

# one event of one rank: what happened, operation, thread flag, line, peer, tag, operation id, bytes, time in ns.
# In virtual time DONE holds when the operation began to move in place of the tag, and when it was over in place of the
# bytes; SPAN has the kind of span in place of the operation, its name's letters in place of the tag, and its
# end in place of the bytes.
EVENT = struct.Struct("<BBHiiqIQQ")
POST, WAIT, DONE, REFUSED, SPAN, FAILED = 1, 2, 3, 4, 5, 6


class FrameError(ValueError):
    """Bytes that are no frame of ours."""


@dataclass(frozen=True)
class Message:
    """A JSON header with the raw bytes that belong to it."""

    header: dict[str, Any]
    blob: bytes = b""


@dataclass(frozen=True)
class Events:
    """Event records, back to back, each `EVENT.size` bytes."""

    data: bytes

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return EVENT.iter_unpack(self.data)


def pack_message(header: dict[str, Any], blob: bytes = b"") -> bytes:
    """A `J` frame."""
    text = json.dumps(header).encode()
    return b"".join((_HEAD.pack(b"J", 4 + len(text) + len(blob)), _LENGTH.pack(len(text)), text, blob))


def pack_events(records: bytes | bytearray) -> bytes:
    """An `E` frame."""
    return _HEAD.pack(b"E", len(records)) + bytes(records)


class Reader:
    """Turns a stream of bytes into frames, however the stream was cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message | Events]:
        """The frames that `data` completes. Raises FrameError on anything that is no frame."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._buffer)
            if kind not in (b"J", b"E") or length > MAX_FRAME:
                raise FrameError("a frame with a bad head")
            if len(self._buffer) < _HEAD.size + length:
                return
            body = bytes(self._buffer[_HEAD.size : _HEAD.size + length])
            del self._buffer[: _HEAD.size + length]
            yield _message(body) if kind == b"J" else _events(body)


class Channel:
    """One end of a socket between two processes of ours. Whoever is gone is noticed when it is read from."""

    def __init__(self, end: socket.socket) -> None:
        self.end, self._reader = end, Reader()
        self._waiting: deque[Message] = deque()

    def post(self, header: dict[str, Any], blob: bytes = b"") -> None:
        with contextlib.suppress(OSError):
            self.end.sendall(pack_message(header, blob))

    def read(self) -> list[Message] | None:
        """What has come; None at the end of file, and for what is no message."""
        try:
            data = self.end.recv(2**20)
            messages = [frame for frame in self._reader.feed(data) if isinstance(frame, Message)]
        except (OSError, FrameError):
            return None
        return messages if data else None

    def next(self) -> Message | None:
        """The next message, which is waited for; None at the end of file."""
        while not self._waiting:
            messages = self.read()
            if messages is None:
                return None
            self._waiting.extend(messages)
        return self._waiting.popleft()


def _message(body: bytes) -> Message:
    if len(body) < 4:
        raise FrameError("a message without a header")
    (size,) = _LENGTH.unpack_from(body)
    if size > MAX_HEADER:
        raise FrameError(f"a header of more than {MAX_HEADER // 2**20} MiB")
    try:
        header = json.loads(body[4 : 4 + size])
    except (ValueError, RecursionError):
        raise FrameError("a header that is not JSON") from None
    if not isinstance(header, dict):
        raise FrameError("a header that is not an object")
    return Message(header, body[4 + size :])


def _events(body: bytes) -> Events:
    if len(body) % EVENT.size:
        raise FrameError("a torn event record")
    return Events(body)


def encode(value: Any, leaf: Callable[[Any], tuple[dict[str, Any], bytes] | None]) -> tuple[Any, bytes]:
    """A value as JSON plus raw bytes.

    Lists, tuples, dicts with string keys, numbers, strings and None pass as they are; `leaf` turns a tensor into its
    description and bytes, and returns None for what it does not know. Anything else becomes {"$other": type name}.
    """
    blobs: list[bytes] = []

    def walk(item: Any) -> Any:
        if item is None or isinstance(item, (bool, float, str)):
            return item
        if isinstance(item, int):
            return item if item.bit_length() <= MAX_BITS else {"$other": f"int of {item.bit_length()} bits"}
        if isinstance(item, (list, tuple)):
            return [walk(part) for part in item]
        if isinstance(item, dict) and all(isinstance(key, str) for key in item):
            return {"$dict": {key: walk(part) for key, part in item.items()}}
        found = leaf(item)
        if found is None:
            return {"$other": type(item).__name__}
        description, data = found
        blobs.append(data)
        return {"$tensor": description, "nbytes": len(data)}

    tree = walk(value)
    return tree, b"".join(blobs)


def decode(tree: Any, blob: bytes, leaf: Callable[[dict[str, Any], bytes], Any]) -> Any:
    """The inverse of `encode`; `leaf` makes a tensor of a description and its bytes. Raises FrameError."""
    position = 0

    def walk(item: Any) -> Any:
        nonlocal position
        if isinstance(item, list):
            return [walk(part) for part in item]
        if not isinstance(item, dict):
            return item
        if "$dict" in item:
            return {key: walk(part) for key, part in item["$dict"].items()}
        if "$tensor" in item:
            size = item["nbytes"]
            data = blob[position : position + size]
            if not isinstance(size, int) or size < 0 or len(data) != size:
                raise FrameError("fewer tensor bytes than announced")
            position += size
            return leaf(item["$tensor"], data)
        return Other(str(item.get("$other"))[:MOST_NAME])

    try:
        return walk(tree)
    except FrameError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        raise FrameError(f"a value that does not decode ({error})") from None


@dataclass(frozen=True)
class Other:
    """A value that cannot leave the box; only the name of its type does."""

    type_name: str
