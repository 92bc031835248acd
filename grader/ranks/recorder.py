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
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend
from torch.distributed import ProcessGroup, Work
from torch.distributed import distributed_c10d as c10d

from grader.ranks import groups, watch
from grader.ranks.called import COLLECTIVES, Called, Uses, called, info_of
from grader.ranks.endless import MOST_ASKED, Endless, Series
from grader.ranks.program import HOST
from grader.ranks.watch import Watch
from grader.sandbox import frames
from grader.trace.events import (
    COLLECTIVE_CODES,
    GROUP_BITS,
    IN_BACKWARD,
    RECV,
    RECV_ANY,
    SEND,
)

KEPT = 64  # of the latest messages that were waited for

_backward_pass = torch._C._current_graph_task_id  # -1 outside of one; bound before a program could put another here


def in_backward() -> int:
    """What the trace keeps of whether autograd runs a backward pass, on the thread that asks."""
    return IN_BACKWARD if _backward_pass() >= 0 else 0


def line_in(file: str) -> int:
    """The line of `file` that is being run: that of its innermost frame; 0 if there is none."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == file:
            return frame.f_lineno
        frame = frame.f_back
    return 0


class ForbiddenCall(BaseException):
    """Raised in the learner's code at a call the exercise does not allow; `except Exception` does not swallow it."""


class _Pending:
    """An operation that was posted and not yet waited for."""

    __slots__ = ("checksum", "host", "kind", "line", "number", "peer", "ranks", "tensor", "work")

    def __init__(self, number: int, kind: int, peer: int, line: int, tensor: torch.Tensor, work: Any) -> None:
        self.ranks: list[int] = []  # of the group, where any of them may be the peer
        self.host: torch.Tensor | None = None  # in the host's memory: what is received, and then goes to a device
        self.number, self.kind, self.peer, self.line, self.tensor, self.work = number, kind, peer, line, tensor, work
        self.checksum = _checksum(tensor) if kind == SEND else 0


def _checksum(tensor: torch.Tensor) -> int:
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return 0
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    start = tensor.storage_offset() * tensor.element_size()
    return zlib.crc32(flat[start : start + size].cpu().numpy().data)


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
        self._groups: set[int] = set()
        self.world = self.rank = 0
        self.watch: Watch | None = None
        self.staged = False  # gloo sends and receives in the host's memory, and tensors are elsewhere
        self._asked = Series(0, 0.0)
        self._destroyed: dict[int, tuple[Any, int]] = {}  # groups, and the lines at which that was done
        self._over: deque[_Pending] = deque(maxlen=KEPT)  # messages that were waited for; of a watched program

    def watch_memory(self) -> None:
        """From now on tell of each read and write of memory that a request still uses, with its line."""
        self.watch = Watch(self._file, self.line, lambda how, pending, line: self._race(how, pending, line))
        watch.install(lambda: self.watch)
        groups.tell(lambda ranks, line: self.message({"event": "made_group", "ranks": ranks, "line": line}), self.line)
        make = dist.Reducer

        def reducer(*args: Any, **kwargs: Any) -> Any:
            self.message({"event": "unseen", "what": "DistributedDataParallel"})
            return make(*args, **kwargs)

        dist.Reducer = reducer  # its collectives are C++'s own, and pass by all that is wrapped here

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

    def _record(
        self, what: int, kind: int, line: int, peer: int, tag: int, number: int, size: int, info: int = 0
    ) -> None:
        threads = info | (threading.active_count() > 1)
        self._records += frames.EVENT.pack(what, kind, threads, line, peer, tag, number, size, time.monotonic_ns())

    def line(self) -> int:
        return line_in(self._file)

    def post(self, kind: int, peer: int, tag: int, tensor: torch.Tensor, start: Callable[[], Any]) -> Any:
        """Record a send or a receive and start it. `start` gives the Work."""
        if self.watch is not None:
            self.watch.touch(tensor, writes=kind != SEND, receives=kind != SEND)
        elif kind == RECV:
            self._refuse_pending_send_buffer(tensor, self.line())
        size = tensor.numel() * tensor.element_size()
        uses = Uses((), (tensor,)) if kind == SEND else Uses((tensor,), ())
        return self._start(kind, peer, tag, size, info_of(tensor.dtype), tensor, start, uses)

    def destroyed(self, group: Any) -> None:
        """A group is destroyed: it is kept, so that no other is taken for it."""
        self._destroyed[id(group)] = group, self.line()

    def join(self, called: Called, group: Any, start: Callable[[], Any]) -> Any:
        """Record one rank's part of a collective and start it."""
        number, ranks = self.group(group)
        root = ranks[called.root] if 0 <= called.root < len(ranks) else -1
        kind = COLLECTIVE_CODES[called.name]
        if called.name == "monitored_barrier":  # it gives no request: it waits by itself
            return self._waits_by_itself(kind, number, start)
        destroyed = self._destroyed.get(id(group))
        if destroyed is not None and self.watch is not None:
            told = {"call": called.name, "line": self.line(), "destroyed": destroyed[1]}
            self.message({"event": "destroyed", **told})
        uses = called.uses(called.root == group.rank())
        if self.watch is not None:
            for tensors, writes in ((uses.brings, False), (uses.fills, True)):
                for tensor in tensors:
                    self.watch.touch(tensor, writes)
        return self._start(kind, root, number, called.size, called.info, None, start, uses)

    def new_group(self, name: str, ranks: list[int], make: Callable[[], Any]) -> Any:
        """Record that this rank takes part in making a group: that, too, waits for all its ranks."""
        return self._waits_by_itself(COLLECTIVE_CODES["new_group"], self._group_number(name, ranks), make)

    def _waits_by_itself(self, kind: int, key: int, make: Callable[[], Any]) -> Any:
        """Record a call in a group that returns only when all have made it."""
        line = self.line()
        with self._lock:
            number, self._count = self._count, self._count + 1
            self._record(frames.POST, kind, line, -1, key, number, 0)
            self._record(frames.WAIT, kind, line, -1, key, number, 0)
            self._flush()
        made = make()
        with self._lock:
            self._record(frames.DONE, kind, 0, -1, 0, number, 0)
        return made

    def group(self, group: Any) -> tuple[int, list[int]]:
        """A process group's number in the trace, and its ranks in the world's numbers."""
        numbers = c10d._world.pg_group_ranks.get(group)
        ranks = sorted(numbers, key=lambda rank: numbers[rank]) if numbers else list(range(self.world))
        return self._group_number(group.group_name, ranks), ranks

    def _group_number(self, name: str, ranks: list[int]) -> int:
        if ranks == list(range(self.world)) and name in ("0", "default_pg", ""):
            return 0
        number = zlib.crc32(f"{name} {ranks}".encode()) & 0x7FFFFFFF or 1
        if number not in self._groups:
            self._groups.add(number)
            self.message({"event": "group", "group": number, "ranks": ranks})
        return number

    def _start(
        self, kind: int, peer: int, tag: int, size: int, info: int, tensor: torch.Tensor | None,
        start: Callable[[], Any], uses: Uses,
    ) -> Any:  # fmt: skip
        line = self.line()
        with self._lock:
            number, self._count = self._count, self._count + 1
            self._record(frames.POST, kind, line, peer, tag, number, size, info | in_backward())
            if kind != SEND:  # gloo may abort the process for what does not fit, as soon as it is posted
                self._flush()
        try:
            if self.watch is not None:
                self.watch.lift()
            work = start()
        except BaseException:
            with self._lock:
                self._record(frames.REFUSED, kind, line, peer, tag, number, 0)
            raise
        if work is not None:
            held = tensor if tensor is not None and tensor.is_contiguous() else torch.empty(0)
            pending = self._pending[id(work)] = _Pending(number, kind, peer, line, held, work)
            if self.watch is not None:
                self.watch.hold(pending, uses.fills, uses.brings)
        elif self.watch is not None:
            self.watch.settle()
        return work

    def on_host(self, tensors: list[torch.Tensor], send: bool) -> list[torch.Tensor]:
        """What gloo is given for a message of these tensors: copies in the host's memory, if they are elsewhere."""
        if not self.staged or not all(tensor.is_contiguous() for tensor in tensors):  # gloo says what is wrong
            return tensors
        copies = [torch.empty_like(tensor, device=HOST) for tensor in tensors]
        for copy, tensor in zip(copies, tensors, strict=True):
            if send:
                copy.copy_(tensor.detach())
        return copies

    def to_device(self, work: Any, host: torch.Tensor) -> None:
        """Note where a receive fills the host's memory: at its end that goes to its tensor."""
        if id(work) in self._pending and host is not self._pending[id(work)].tensor:
            self._pending[id(work)].host = host

    def from_any(self, work: Any, ranks: list[int]) -> None:
        """Note of which ranks any may be the source of a receive."""
        if id(work) in self._pending:
            self._pending[id(work)].ranks = ranks

    def forbid(self, name: str) -> None:
        """Refuse a collective where the exercise is about point-to-point messages."""
        if self._p2p_only:
            self.refuse(f"dist.{name}")

    def refuse(self, name: str) -> None:
        """Tell of a call that is not allowed, and end the rank's."""
        line = self.line()
        self.message({"event": "forbidden", "call": name, "line": line})
        raise ForbiddenCall(f"{name} at line {line}")

    def wait(self, work: Any, wait: Callable[[], Any]) -> Any:
        """Record that this rank now blocks in an operation, wait, and record that it goes on."""
        pending = self._pending.get(id(work))
        again = next((over for over in self._over if over.work is work), None) if pending is None else None
        if again is not None:  # gloo would wait for another message, which does not come
            self._race("waited_twice", again, self.line())
            return True
        if pending is None:
            return wait()
        with self._lock:
            self._record(frames.WAIT, pending.kind, self.line(), pending.peer, 0, pending.number, 0)
            self._flush()
        if self.watch is not None:
            self.watch.lift()  # gloo may fill its tensors in here
        try:
            result = wait()
        except BaseException:
            self._forget(pending)
            with self._lock:
                self._record(frames.FAILED, pending.kind, 0, pending.peer, 0, pending.number, 0)
            raise
        self._finish(pending)
        return result

    def completed(self, work: Any, answer: bool, wait: Callable[[], Any]) -> bool:
        """Note that a request was seen completed without a wait. Who asks may do so for ever: tell what was posted."""
        with self._lock:
            self._flush()
        pending = self._pending.get(id(work))
        if answer and pending is not None:
            self._finish(pending)
        elif pending is not None and self.watch is not None and self._asks_for_ever(pending):
            self.wait(work, wait)  # or for ever, and the ranks that it waits for are named
            return True
        return answer

    def _asks_for_ever(self, pending: _Pending) -> bool:
        """Whether a rank has asked very often in a row. Raises Endless where the answer cannot change."""
        if self._asked.posted != self._count:
            self._asked = Series(self._count, 0.0)
        self._asked.asked += 1
        if self._asked.asked <= MOST_ASKED:
            return False
        if pending.kind in (SEND, RECV, RECV_ANY):
            told = {"posted": pending.line, "peer": pending.peer, "kind": pending.kind, "count": self._asked.asked}
            self.message({"event": "endless", "how": "asked", "line": self.line(), **told})
            raise Endless("asked")
        self._asked.asked = 0
        return True

    def unwatched(self, work: Any) -> None:
        """Somebody else, a future, is asked from now on whether a request is over."""
        pending = self._pending.get(id(work))
        if self.watch is not None and pending is not None:
            self.watch.release(pending)

    def _forget(self, pending: _Pending) -> bool:
        """An operation is over. Returns whether the misuse of its memory was told."""
        self._pending.pop(id(pending.work), None)
        return self.watch is not None and self.watch.release(pending)

    def _finish(self, pending: _Pending) -> None:
        told = self._forget(pending)
        if self.watch is not None and pending.kind in (SEND, RECV, RECV_ANY):
            self._over.append(pending)
        peer = pending.peer
        if pending.host is not None:
            with torch.no_grad():
                pending.tensor.detach().copy_(pending.host)
        if pending.kind == RECV_ANY:
            peer = pending.ranks[pending.work._source_rank()]
        with self._lock:
            self._record(frames.DONE, pending.kind, 0, peer, 0, pending.number, 0)
        if pending.kind == SEND and not told and _checksum(pending.tensor) != pending.checksum:
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
        if self.watch is not None:
            self.watch.clear()
        with self._lock:
            self._count = 0


def install(recorder: Recorder) -> None:
    """Wrap the operations of every process group, and Work.wait, for as long as this process lives."""
    group: Any = ProcessGroup
    work: Any = Work
    send, recv, recv_any = group.send, group.recv, group.recv_anysource
    wait, is_completed = work.wait, work.is_completed

    def checked(group: Any, peer: int, tag: int, verb: str) -> tuple[int, int]:
        """The peer's rank in the world, and the tag with the group's number above it."""
        number, ranks = recorder.group(group)
        peer = ranks[peer] if 0 <= peer < len(ranks) else peer
        if not 0 <= peer < recorder.world:
            raise ValueError(f"{verb} rank {peer}, but the world has ranks 0 to {recorder.world - 1}")
        if peer == recorder.rank:
            raise ValueError(f"{verb} rank {peer}, which is this rank itself")
        return peer, (number << GROUP_BITS) + tag

    def sending(self: Any, tensors: list[torch.Tensor], dst: int, tag: int = 0) -> Any:
        peer, full = checked(self, dst, tag, "send to")
        given = recorder.on_host(tensors, send=True)
        return recorder.post(SEND, peer, full, tensors[0], lambda: send(self, given, dst, tag))

    def receiving(self: Any, tensors: list[torch.Tensor], src: int, tag: int = 0) -> Any:
        peer, full = checked(self, src, tag, "receive from")
        given = recorder.on_host(tensors, send=False)
        work = recorder.post(RECV, peer, full, tensors[0], lambda: recv(self, given, src, tag))
        recorder.to_device(work, given[0])
        return work

    def receiving_any(self: Any, tensors: list[torch.Tensor], tag: int = 0) -> Any:
        number, ranks = recorder.group(self)
        full = (number << GROUP_BITS) + tag
        given = recorder.on_host(tensors, send=False)
        work = recorder.post(RECV_ANY, -1, full, tensors[0], lambda: recv_any(self, given, tag))
        recorder.to_device(work, given[0])
        recorder.from_any(work, ranks)
        return work

    group.send, group.recv, group.recv_anysource = sending, receiving, receiving_any
    work.wait = lambda self, *args, **kwargs: recorder.wait(self, lambda: wait(self, *args, **kwargs))
    work.is_completed = lambda self: recorder.completed(self, is_completed(self), lambda: wait(self))
    for method in ("get_future", "synchronize"):
        setattr(work, method, _elsewhere(recorder, getattr(work, method)))
    shutdown = group.shutdown

    def shutting(self: Any) -> Any:
        recorder.destroyed(self)
        return shutdown(self)

    group.shutdown = shutting
    make = c10d._new_process_group_helper

    def making(size: int, rank: int, ranks: list[int], *args: Any, **kwargs: Any) -> Any:
        if not ranks or recorder.rank not in ranks:
            return make(size, rank, ranks, *args, **kwargs)
        name = kwargs["group_name"] if "group_name" in kwargs else args[2]
        return recorder.new_group(str(name), list(ranks), lambda: make(size, rank, ranks, *args, **kwargs))

    c10d._new_process_group_helper = making
    for method, name in COLLECTIVES.items():
        for owner, wrap in ((group, _collective), (Backend, _backend_collective)):
            original = getattr(owner, method, None)
            if original is not None:
                setattr(owner, method, wrap(recorder, original, name))


def _elsewhere(recorder: Recorder, original: Any) -> Any:
    """For methods of a request that wait for it, or give something to wait for, without our knowledge."""

    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.unwatched(self)
        return original(self, *args, **kwargs)

    return ask


def _collective(recorder: Recorder, original: Any, name: str) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.forbid(name)
        return recorder.join(called(name, args, kwargs), self, lambda: original(self, *args, **kwargs))

    return call


def _backend_collective(recorder: Recorder, original: Any, name: str) -> Any:
    """For those who go round the group, to the backend behind it."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.forbid(name)
        return original(self, *args, **kwargs)

    return call
