"""A rank: runs in a fork of the warm host. Sets up gloo, loads the submission, makes the calls it is told to.

Imports torch at the top: this is the module that the host keeps warm.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import importlib
import inspect
import itertools
import linecache
import os
import random
import signal
import socket
import sys
import time
import traceback
import types
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from grader.ranks import harness, model
from grader.ranks.recorder import ForbiddenCall, Recorder, install
from grader.sandbox import frames
from grader.sandbox.first import NOTE, STACKS_SIGNAL, STORE, TRACE_SIGNAL

MODULE = "submission"
GROUP_TIMEOUT = timedelta(minutes=10)  # longer than any limit of ours: a hang is ours to name, not gloo's


def tensor(description: dict[str, Any], data: bytes) -> torch.Tensor:
    dtype = getattr(torch, description["dtype"])
    storage = torch.empty(0, dtype=dtype)
    if data:
        storage = torch.frombuffer(bytearray(data), dtype=dtype)
    return torch.as_strided(storage, description["shape"], description["stride"], description["offset"])


def tensor_bytes(value: Any) -> tuple[dict[str, Any], bytes] | None:
    """A tensor's whole storage, and the view on it. A number of numpy's goes as a tensor without dimensions."""
    if type(value).__module__ == "numpy" and hasattr(value, "item") and not getattr(value, "shape", ()):
        value = torch.tensor(value.item())
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


def raised(error: BaseException, file: str, stage: str) -> dict[str, Any]:
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == file else _where(error, file)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    peer = "Connection closed by peer" in text or "Connection reset by peer" in text
    memory = isinstance(error, MemoryError) or "can't allocate memory" in str(error)
    syntax = stage == "compile"  # also ValueError and RecursionError: null bytes, nesting too deep
    why = "syntax" if syntax else "memory" if memory else "peer" if peer else _limit(error, text)
    return {
        "event": "raised",
        "stage": stage,
        "type": type(error).__name__,
        "text": text.strip()[:2000],
        "line": line,
        "why": "forbidden" if isinstance(error, ForbiddenCall) else why,
    }


_LIMITS = {
    errno.ENOSPC: "disk", errno.EDQUOT: "disk", errno.EFBIG: "file", errno.EMFILE: "files", errno.ENFILE: "files",
    errno.EPERM: "denied", errno.EACCES: "denied", errno.EROFS: "denied",
}  # fmt: skip


def _limit(error: BaseException, text: str) -> str:
    """The limit of the box that an error of the operating system tells of; "" for other errors."""
    if isinstance(error, OSError):
        forked = error.errno == errno.EAGAIN and error.filename is None
        return "processes" if forked else _LIMITS.get(error.errno or 0, "")
    return "processes" if isinstance(error, RuntimeError) and "can't start new thread" in text else ""


def load(code: types.CodeType, source: str, file: str) -> types.ModuleType:
    module = types.ModuleType(MODULE)
    module.__file__ = file
    sys.modules[MODULE] = module
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(code, module.__dict__)  # the learner's code: this process is its box
    return module


def as_the_caller_sees(arguments: list[Any]) -> list[Any]:
    """The arguments as aliases of their memory: assigning to `tensor.data` changes the learner's handle, not these."""
    return [value.detach() if isinstance(value, torch.Tensor) else value for value in arguments]


def find_functions(
    module: types.ModuleType, wanted: list[tuple[str, list[str] | None]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """By name, the functions that can be called, and why the others cannot."""
    functions, problems = {}, {}
    for name, parameters in wanted:
        functions[name], problem = _find_function(module, name, parameters)
        if problem:
            problems[name] = problem
    return functions, problems


def _find_function(module: types.ModuleType, name: str, parameters: list[str] | None) -> tuple[Any, str]:
    """The function to call and why it cannot be called ("" if it can)."""
    function = getattr(module, name, None)
    if function is None:
        return None, f"it defines no function {name}"
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


def take_over_groups(begin: Callable[[], None], own_group: bool) -> None:
    """Let a program's own init_process_group() do what it would under torchrun.

    The group is there when the program begins. With `own_group` making it is then taken as done; else it is an error,
    as torch has it. After a destroy_process_group(), `begin` makes it anew.
    """

    def init_process_group(*_: Any, **__: Any) -> None:
        if not dist.is_initialized():
            begin()
        elif not own_group:
            raise ValueError("trying to initialize the default process group twice!")

    dist.init_process_group = c10d.init_process_group = init_process_group


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


class Inbox:
    """Messages from the grading process, in order."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._reader = frames.Reader()
        self._waiting: list[Any] = []

    def next(self) -> frames.Message | None:
        """The next message, or None at the end of file."""
        while not self._waiting:
            data = self._channel.recv(2**20)
            if not data:
                return None
            self._waiting.extend(self._reader.feed(data))
        message: frames.Message = self._waiting.pop(0)
        return message


def main(rank: int, channel: socket.socket, port: int) -> int:
    """Be rank `rank` of a world, or a whole simulated world: "start" with the program, then calls. Returns a status."""
    inbox, recorder = Inbox(channel), Recorder(channel)
    os.lseek(NOTE, 8, os.SEEK_SET)  # after the number of the running rank
    signal.signal(TRACE_SIGNAL, signal.SIG_IGN)
    faulthandler.register(STACKS_SIGNAL, file=NOTE, all_threads=True)
    start = inbox.next()
    if start is not None and "by" in start.header:  # not ranks are to run here, but what that module runs
        return int(importlib.import_module(start.header["by"]).serve(start.header, inbox.next, recorder.message))
    while start is not None and start.header.get("engine") == "sim":
        start = serve.world(start.header, inbox, recorder.message)
    if start is None:
        return 0
    return _world(rank, start.header, inbox, recorder, port)


def _world(rank: int, start: dict[str, Any], inbox: Inbox, recorder: Recorder, port: int) -> int:
    """This process is one rank: from the program to its results, until there is no further call."""
    if start["apart"]:
        return _supervise(start, inbox, recorder)
    world, file = start["world"], start["file"]
    torch.manual_seed(start["seed"])
    random.seed(start["seed"])
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world))
    device = torch.device("cpu")
    if start["backend"] == "nccl":
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
    attempts = itertools.count()
    init, first = dist.init_process_group, rank == 0
    meeting = dist.HashStore()
    if world > 1:  # the ranks share a network and no folder
        meeting = dist.TCPStore(
            "127.0.0.1", port, world, first, wait_for_workers=False, master_listen_fd=STORE if first else None
        )

    def begin() -> None:
        store = dist.PrefixStore(f"{next(attempts)}", meeting)
        init(start["backend"], store=store, rank=rank, world_size=world, timeout=GROUP_TIMEOUT)

    begin()
    take_over_groups(begin, start["own_group"])
    if start["yield_to_ranks"]:
        _let_gloo_yield()
    recorder.begin(rank, world, file, start["p2p_only"])
    install(recorder)
    harness.ban(start["banned"], recorder.refuse)
    try:
        stage = "compile"
        code = compile(start["source"], file, "exec")
        stage = "load"
        module = load(code, start["source"], file)
    except BaseException as error:
        recorder.message(raised(error, file, stage))
        return _stay(inbox)
    ledger = model.Ledger()
    model.begin(time.sleep, lambda: ledger)
    functions, problems = find_functions(module, start["functions"])
    functions["$harness"] = harness.load(start["harness"], module)
    recorder.message({"event": "loaded", "problems": problems})
    while (call := inbox.next()) is not None:
        arguments = frames.decode(call.header["arguments"], call.blob, lambda *told: tensor(*told).to(device))
        seen = as_the_caller_sees(arguments)
        try:
            returned = harness.called(functions, call.header)(*arguments)
            recorder.close_call()
        except BaseException as error:
            print_traceback(error, file)
            recorder.message(raised(error, file, "call"))
            return _stay(inbox)
        sys.stdout.flush()
        tree, blob = frames.encode([seen, returned], tensor_bytes)
        recorder.message({"event": "returned", "value": tree, "peak": ledger.peak}, blob)
    return 0


def _supervise(start: dict[str, Any], inbox: Inbox, recorder: Recorder) -> int:
    """This process makes lives of the program, which it does not load itself: calls are of the harness alone, and
    another process has them made, so that lives, which are forks of this one, do not know of them."""
    file = start["file"]
    stage = "compile"
    try:
        code = compile(start["source"], file, "exec")
        stage = "call"
        made = lives.Lives(code, start["source"], file, start["functions"], start["seed"], start["shared_memory"])
        by_name = harness.load(start["harness"], types.ModuleType(MODULE))
        problems = made.run(lambda functions: functions.problems).values[0]
        recorder.message({"event": "loaded", "problems": problems})
    except BaseException as error:
        return _tell_and_stay(error, file, stage, inbox, recorder)
    names = vars(sys.modules["harness"])
    return lives.directed(made, names, lambda lives: _direct(lives, by_name, file, inbox, recorder))


def _direct(made: Any, by_name: dict[str, Any], file: str, inbox: Inbox, recorder: Recorder) -> int:
    """In a process of its own: make the calls of the harness, with lives to be had."""
    try:
        while (call := inbox.next()) is not None:
            arguments = frames.decode(call.header["arguments"], call.blob, tensor)
            seen = as_the_caller_sees(arguments)
            returned = by_name[call.header["by"]](made, *arguments)
            tree, blob = frames.encode([seen, returned], tensor_bytes)
            recorder.message({"event": "returned", "value": tree, "peak": 0}, blob)
    except BaseException as error:
        return _tell_and_stay(error, file, "call", inbox, recorder)
    return 0


def _tell_and_stay(error: BaseException, file: str, stage: str, inbox: Inbox, recorder: Recorder) -> int:
    if isinstance(error, lives.Raised):
        recorder.message(error.event)
    else:
        print_traceback(error, file)
        recorder.message(raised(error, file, stage))
    return _stay(inbox)


def _stay(inbox: Inbox) -> int:
    """Stay alive after an error, so that the others see silence and not a broken connection."""
    inbox.next()
    return 0


def _hide_ours(told: traceback.TracebackException) -> None:
    """Take frames of ours out of a traceback, and out of those it came from."""
    ours = os.path.dirname(os.path.dirname(__file__))
    left = [entry for entry in told.stack if not entry.filename.startswith((ours, harness.FILE))]
    told.stack = traceback.StackSummary.from_list(left)
    for earlier in (told.__cause__, told.__context__):
        if earlier is not None:
            _hide_ours(earlier)


def print_traceback(error: BaseException, file: str) -> None:
    """The traceback on stderr as Python would print it, from the learner's code on and without frames of ours."""
    if isinstance(error, ForbiddenCall):
        return
    told = traceback.TracebackException.from_exception(error)
    _hide_ours(told)
    print("".join(told.format()), end="", file=sys.stderr, flush=True)


from grader.ranks import lives  # noqa: E402 - as below
from grader.ranks.sim import serve  # noqa: E402 - it uses what stands above; imported here so that the host has it warm
