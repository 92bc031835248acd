"""A rank: runs in a fork of the warm host. Sets up gloo, loads the submission, makes the calls it is told to.

Every operation on a process group is recorded and told to the grading process before the rank blocks in it, so that
whoever hangs, crashes or is killed has already said what it was waiting for.
Imports torch at the top: this is the module that the host keeps warm.
"""

from __future__ import annotations

import contextlib
import faulthandler
import inspect
import linecache
import os
import socket
import sys
import threading
import time
import traceback
import types
import zlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup, Work

from grader.sandbox import frames
from grader.sandbox.host import STACKS_SIGNAL
from grader.trace.events import COLLECTIVE_CODES, RECV, RECV_ANY, SEND

MODULE = "submission"
GROUP_TIMEOUT = timedelta(minutes=10)  # longer than any limit of ours: a hang is ours to name, not gloo's

_COLLECTIVES = {
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


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two contiguous tensors share memory."""
    a_start, b_start = a.data_ptr(), b.data_ptr()
    a_end, b_end = a_start + a.numel() * a.element_size(), b_start + b.numel() * b.element_size()
    return bool(a_start < b_end and b_start < a_end)


class Recorder:
    """Records every process group operation of this rank and sends the records to the grading process."""

    def __init__(self, channel: socket.socket, file: str, p2p_only: bool) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._file = file
        self._p2p_only = p2p_only
        self._records = bytearray()
        self._pending: dict[int, _Pending] = {}
        self._count = 0
        self.world = dist.get_world_size()
        self.rank = dist.get_rank()

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
        work = start()
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
            if pending.kind == SEND and tensor.is_contiguous() and _overlap(tensor, pending.tensor):
                self._race("received_into", pending, line)

    def _race(self, how: str, pending: _Pending, line: int) -> None:
        self.message({"event": "race", "how": how, "line": line, "posted": pending.line, "peer": pending.peer})

    def close_call(self) -> None:
        """At the end of a call: every request must have been waited for."""
        for pending in list(self._pending.values()):
            if pending.kind in (SEND, RECV, RECV_ANY) and pending.number >= 0:
                how = "send_not_waited" if pending.kind == SEND else "recv_not_waited"
                self._race(how, pending, pending.line)
        self._abandoned = list(self._pending.values())  # keeps the works alive: a dropped handle cancels its message
        self._pending.clear()
        with self._lock:
            self._count = 0


def _install(recorder: Recorder) -> None:
    """Wrap the operations of every process group, and Work.wait."""
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
    for method, name in _COLLECTIVES.items():
        original = getattr(group, method, None)
        if original is not None:
            setattr(group, method, _collective(recorder, original, name))


def _collective(recorder: Recorder, original: Any, name: str) -> Any:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.forbid(name)
        tensor = _first_tensor(args)
        return recorder.post(COLLECTIVE_CODES[name], -1, 0, tensor, lambda: original(self, *args, **kwargs))

    return call


def _first_tensor(args: tuple[Any, ...]) -> torch.Tensor | None:
    for arg in args:
        if isinstance(arg, torch.Tensor):
            return arg
        if isinstance(arg, (list, tuple)) and (found := _first_tensor(tuple(arg))) is not None:
            return found
    return None


def _tensor(description: dict[str, Any], data: bytes) -> torch.Tensor:
    dtype = getattr(torch, description["dtype"])
    storage = torch.empty(0, dtype=dtype)
    if data:
        storage = torch.frombuffer(bytearray(data), dtype=dtype)
    return torch.as_strided(storage, description["shape"], description["stride"], description["offset"])


def _bytes(value: Any) -> tuple[dict[str, Any], bytes] | None:
    """A tensor's whole storage, and the view on it."""
    if not isinstance(value, torch.Tensor):
        return None
    tensor = value.detach().cpu()
    raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    whole = raw.numel() - raw.numel() % tensor.element_size()
    description = {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "offset": tensor.storage_offset(),
    }
    return description, raw[:whole].numpy().tobytes()


def _where(error: BaseException, file: str) -> int | None:
    """The line of the submission in which `error` arose: the innermost of its frames in the traceback."""
    lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if entry.filename == file]
    return lines[-1] if lines else None


def _raised(error: BaseException, file: str, stage: str) -> dict[str, Any]:
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == file else _where(error, file)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    peer = "Connection closed by peer" in text or "Connection reset by peer" in text
    memory = isinstance(error, MemoryError) or "can't allocate memory" in str(error)
    syntax = isinstance(error, SyntaxError) and error.filename == file and stage == "load"
    why = "memory" if memory else "peer" if peer else "syntax" if syntax else ""
    return {
        "event": "raised",
        "stage": stage,
        "type": type(error).__name__,
        "text": text.strip()[:2000],
        "line": line,
        "why": "forbidden" if isinstance(error, ForbiddenCall) else why,
    }


def _load(source: str, file: str) -> types.ModuleType:
    module = types.ModuleType(MODULE)
    module.__file__ = file
    sys.modules[MODULE] = module
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), module.__dict__)  # the learner's code: this process is its box
    return module


def _function(module: types.ModuleType, name: str, parameters: list[str] | None) -> tuple[Any, str]:
    """The function to call and why it cannot be called ("" if it can)."""
    function = getattr(module, name, None)
    if function is None:
        return None, f"defines no function {name}"
    if not callable(function):
        return None, f"{name} is a {type(function).__name__}, not a function"
    if parameters is not None:
        try:
            inspect.signature(function).bind(*parameters)
        except TypeError:
            return None, f"{name} cannot be called as {name}({', '.join(parameters)})"
        except ValueError:
            pass
    return function, ""


def _let_gloo_yield() -> None:
    """Run gloo's own threads only where no other wants the processor.

    A gloo thread polls without rest while a message is there that no receive is posted for; on fewer cores than ranks
    it keeps the very rank that would post it from running, for a scheduler tick each time. Measured on 2 cores: 30
    ring steps on 16 ranks 0.10 s, with this 0.02 s; but 2 s when the machine is busy, so it is for idle machines.
    """
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as comm:
            if comm.read().startswith("gloo"):
                os.sched_setscheduler(int(task), os.SCHED_IDLE, os.sched_param(0))


def main(rank: int, channel: socket.socket) -> int:
    """Serve one world's life as rank `rank`: "start" (the program), then call after call. Returns an exit status."""
    reader = frames.Reader()
    queue: list[Any] = []

    def receive() -> frames.Message | None:
        while not queue:
            data = channel.recv(2**20)
            if not data:
                return None
            queue.extend(reader.feed(data))
        message: frames.Message = queue.pop(0)
        return message

    start = receive()
    if start is None:
        return 0
    world, file = start.header["world"], start.header["file"]
    torch.manual_seed(start.header["seed"])
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world))
    dist.init_process_group(
        "gloo", store=dist.FileStore("rendezvous", world), rank=rank, world_size=world, timeout=GROUP_TIMEOUT
    )
    if start.header["yield_to_ranks"]:
        _let_gloo_yield()
    recorder = Recorder(channel, file, start.header["p2p_only"])
    _install(recorder)
    stacks = open(f"stacks-{rank}", "w")  # noqa: SIM115 - faulthandler writes to it for as long as we live
    faulthandler.register(STACKS_SIGNAL, file=stacks, all_threads=True)
    try:
        module = _load(start.header["source"], file)
    except BaseException as error:
        recorder.message(_raised(error, file, "load"))
        return _linger(channel)
    function, problem = _function(module, start.header["function"], start.header["parameters"])
    recorder.message({"event": "loaded", "problem": problem})
    while (call := receive()) is not None:
        arguments = frames.decode(call.header["arguments"], call.blob, _tensor)
        recorder.message({"event": "calling"})
        try:
            returned = function(*arguments)
            recorder.close_call()
        except BaseException as error:
            _print_traceback(error, file)
            recorder.message(_raised(error, file, "call"))
            return _linger(channel)
        sys.stdout.flush()
        tree, blob = frames.encode([list(arguments), returned], _bytes)
        recorder.message({"event": "returned", "value": tree}, blob)
    return 0


def _print_traceback(error: BaseException, file: str) -> None:
    """The traceback on stderr as Python would print it, from the learner's code on and without frames of ours."""
    if isinstance(error, ForbiddenCall):
        return
    told = traceback.TracebackException.from_exception(error)
    ours = os.path.dirname(os.path.dirname(__file__))
    told.stack = traceback.StackSummary.from_list(
        [entry for entry in told.stack if not entry.filename.startswith(ours)]
    )
    print("".join(told.format()), end="", file=sys.stderr, flush=True)


def _linger(channel: socket.socket) -> int:
    """Stay alive after an error, so that the others see silence, not a broken connection; until we are ended."""
    while channel.recv(2**16):
        pass
    return 0
