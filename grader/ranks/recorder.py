"""Records every operation of a rank on a process group, and tells the grading process before the rank blocks in it.

So whoever hangs, crashes or is killed has already said what it was waiting for. Runs in the box.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
import types
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch._C._distributed_c10d import Backend
from torch.distributed import ProcessGroup, Work

from grader.sandbox import frames
from grader.trace.events import COLLECTIVE_CODES, RECV, RECV_ANY, SEND

COLLECTIVES = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "allgather": "all_gather",
    "_allgather_base": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "allgather_coalesced": "all_gather_coalesced",
    "gather": "gather",
    "scatter": "scatter",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "all_to_all_single": "all_to_all_single",
    "barrier": "barrier",
    "monitored_barrier": "monitored_barrier",
}


class ForbiddenCall(BaseException):
    """Raised in the learner's code at a call the exercise does not allow; `except Exception` does not swallow it."""


class _Pending:
    """An operation that was posted and not yet waited for."""

    __slots__ = ("checksum", "kind", "line", "number", "peer", "tensor", "work")

    def __init__(self, number: int, kind: int, peer: int, line: int, tensor: torch.Tensor, work: Any) -> None:
        self.number, self.kind, self.peer, self.line, self.tensor, self.work = number, kind, peer, line, tensor, work
        self.checksum = _checksum(tensor) if kind == SEND else 0


def _checksum(tensor: torch.Tensor) -> int:
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return 0
    flat = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    start = tensor.storage_offset() * tensor.element_size()
    return zlib.crc32(flat[start : start + size].numpy().data)


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two contiguous tensors share memory."""
    a_start, b_start = a.data_ptr(), b.data_ptr()
    a_end, b_end = a_start + a.numel() * a.element_size(), b_start + b.numel() * b.element_size()
    return bool(a_start < b_end and b_start < a_end)


class Recorder:
    """Records every process group operation of this rank and sends the records to the grading process."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._file = ""
        self._p2p_only = False
        self._records = bytearray()
        self._pending: dict[int, _Pending] = {}
        self._abandoned: list[_Pending] = []
        self._count = 0
        self.world = self.rank = 0

    def begin(self, rank: int, world: int, file: str, p2p_only: bool) -> None:
        """A new world begins, in which the learner's code is in `file`."""
        self.rank, self.world, self._file, self._p2p_only = rank, world, file, p2p_only

    def message(self, header: dict[str, Any], blob: bytes = b"") -> None:
        """Send what was recorded, then a message."""
        with self._lock:
            self._flush()
            self._channel.sendall(frames.pack_message(header, blob))

    def _flush(self) -> None:
        if self._records:
            self._channel.sendall(frames.pack_events(self._records))
            self._records.clear()

    def _record(self, what: int, kind: int, line: int, peer: int, tag: int, number: int, size: int) -> None:
        threads = 1 if threading.active_count() > 1 else 0
        self._records += frames.EVENT.pack(what, kind, threads, line, peer, tag, number, size, time.monotonic_ns())

    def line(self) -> int:
        """The line of the submission that is being run: the innermost frame of its file."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self._file:
                return frame.f_lineno
            frame = frame.f_back
        return 0

    def post(self, kind: int, peer: int, tag: int, tensor: torch.Tensor | None, start: Callable[[], Any]) -> Any:
        """Record an operation and start it. `start` gives the Work."""
        line = self.line()
        if tensor is not None and kind == RECV:
            self._refuse_pending_send_buffer(tensor, line)
        with self._lock:
            number, self._count = self._count, self._count + 1
            size = tensor.numel() * tensor.element_size() if tensor is not None else 0
            self._record(frames.POST, kind, line, peer, tag, number, size)
        try:
            work = start()
        except BaseException:
            with self._lock:
                self._record(frames.REFUSED, kind, line, peer, tag, number, 0)
            raise
        if work is not None:
            held = tensor if tensor is not None and tensor.is_contiguous() else torch.empty(0)
            self._pending[id(work)] = _Pending(number, kind, peer, line, held, work)
        return work

    def forbid(self, name: str) -> None:
        """Refuse a collective where the exercise is about point-to-point messages."""
        if self._p2p_only:
            line = self.line()
            self.message({"event": "forbidden", "call": name, "line": line})
            raise ForbiddenCall(f"dist.{name} at line {line}")

    def wait(self, work: Any, wait: Callable[[], Any]) -> Any:
        """Record that this rank now blocks in an operation, wait, and record that it goes on."""
        pending = self._pending.get(id(work))
        if pending is None:
            return wait()
        with self._lock:
            self._record(frames.WAIT, pending.kind, self.line(), pending.peer, 0, pending.number, 0)
            self._flush()
        result = wait()
        self._finish(pending)
        return result

    def completed(self, work: Any, answer: bool) -> bool:
        """Note that a request was seen completed without a wait."""
        pending = self._pending.get(id(work))
        if answer and pending is not None:
            self._finish(pending)
        return answer

    def _finish(self, pending: _Pending) -> None:
        self._pending.pop(id(pending.work), None)
        peer = pending.peer
        if pending.kind == RECV_ANY:
            peer = pending.work._source_rank()
        with self._lock:
            self._record(frames.DONE, pending.kind, 0, peer, 0, pending.number, 0)
        if pending.kind == SEND and _checksum(pending.tensor) != pending.checksum:
            self._race("changed", pending, self.line())

    def _refuse_pending_send_buffer(self, tensor: torch.Tensor, line: int) -> None:
        for pending in list(self._pending.values()):
            if pending.kind == SEND and tensor.is_contiguous() and overlap(tensor, pending.tensor):
                self._race("received_into", pending, line)

    def _race(self, how: str, pending: _Pending, line: int) -> None:
        self.message({"event": "race", "how": how, "line": line, "posted": pending.line, "peer": pending.peer})

    def close_call(self) -> None:
        """At the end of a call: every request must have been waited for. Those that were not are told as races."""
        for pending in list(self._pending.values()):
            if pending.kind in (SEND, RECV, RECV_ANY) and pending.number >= 0:
                how = "send_not_waited" if pending.kind == SEND else "recv_not_waited"
                self._race(how, pending, pending.line)
        self._abandoned += self._pending.values()  # keeps the works alive: a dropped handle cancels its message
        self._pending.clear()
        with self._lock:
            self._count = 0


def install(recorder: Recorder) -> None:
    """Wrap the operations of every process group, and Work.wait, for as long as this process lives."""
    group: Any = ProcessGroup
    work: Any = Work
    send, recv, recv_any = group.send, group.recv, group.recv_anysource
    wait, is_completed = work.wait, work.is_completed

    def checked(peer: int, verb: str) -> None:
        if not 0 <= peer < recorder.world:
            raise ValueError(f"{verb} rank {peer}, but the world has ranks 0 to {recorder.world - 1}")
        if peer == recorder.rank:
            raise ValueError(f"{verb} rank {peer}, which is this rank itself")

    def sending(self: Any, tensors: list[torch.Tensor], dst: int, tag: int = 0) -> Any:
        checked(dst, "send to")
        return recorder.post(SEND, dst, tag, tensors[0], lambda: send(self, tensors, dst, tag))

    def receiving(self: Any, tensors: list[torch.Tensor], src: int, tag: int = 0) -> Any:
        checked(src, "receive from")
        return recorder.post(RECV, src, tag, tensors[0], lambda: recv(self, tensors, src, tag))

    def receiving_any(self: Any, tensors: list[torch.Tensor], tag: int = 0) -> Any:
        return recorder.post(RECV_ANY, -1, tag, tensors[0], lambda: recv_any(self, tensors, tag))

    group.send, group.recv, group.recv_anysource = sending, receiving, receiving_any
    work.wait = lambda self, *args, **kwargs: recorder.wait(self, lambda: wait(self, *args, **kwargs))
    work.is_completed = lambda self: recorder.completed(self, is_completed(self))
    for method, name in COLLECTIVES.items():
        for owner, wrap in ((group, _collective), (Backend, _backend_collective)):
            original = getattr(owner, method, None)
            if original is not None:
                setattr(owner, method, wrap(recorder, original, name))


def _collective(recorder: Recorder, original: Any, name: str) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.forbid(name)
        tensor = _first_tensor(args)
        return recorder.post(COLLECTIVE_CODES[name], -1, 0, tensor, lambda: original(self, *args, **kwargs))

    return call


def _backend_collective(recorder: Recorder, original: Any, name: str) -> Any:
    """For those who go round the group, to the backend behind it."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.forbid(name)
        return original(self, *args, **kwargs)

    return call


def _first_tensor(args: tuple[Any, ...]) -> torch.Tensor | None:
    for arg in args:
        if isinstance(arg, torch.Tensor):
            return arg
        if isinstance(arg, (list, tuple)) and (found := _first_tensor(tuple(arg))) is not None:
            return found
    return None
