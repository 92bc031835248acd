"""A job's driver and its workers, in the box. They do what the grading process asks, and decide nothing.

The driver is a fork of the warm process: it calls the learner's function, and each submit() and wait_any() in there is
a message to the grading process and its answer. A worker is a fresh interpreter with a hash seed of its own, as on
another machine; it calls top-level functions of the same program. Arguments and results are pickled and unpickled in
these processes only; whoever carries them sees bytes.
"""

from __future__ import annotations

import linecache
import os
import pickle
import socket
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any, Protocol

from grader.jobs import given
from grader.sandbox import frames

MODULE = "submission"
START = __file__.replace("host.py", "start.py")


class Message(Protocol):
    header: dict[str, Any]
    blob: bytes


Hear = Callable[[], Message | None]
Tell = Callable[..., None]


def size(value: Any) -> int:
    """How many bytes a value takes on its way from one process to another."""
    return len(pickle.dumps(value))


def serve(start: dict[str, Any], hear: Hear, tell: Tell) -> int:
    """Be the driver, or become a worker. Returns an exit status."""
    if start["role"] == "worker":
        environment = {**os.environ, "PYTHONHASHSEED": str(start["hash_seed"])}
        os.execve(sys.executable, [sys.executable, "-s", "-P", START], environment)
    tell({"event": "up"})
    program = hear()
    module = _loaded(program.header, tell) if program is not None else None
    job = hear() if module is not None else None
    if module is not None and job is not None:
        _drive(module, job.header, hear, tell)
        sys.stdout.flush()
        hear()
    return 0


# ---- the program


def _loaded(asked: dict[str, Any], tell: Tell) -> types.ModuleType | None:
    """The learner's program as a module; None if there is none, which has been told."""
    source, file, stage = asked["source"], asked["file"], "compile"
    try:
        code = compile(source, file, "exec")
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        stage = "load"
        module = types.ModuleType(MODULE)
        module.__file__ = file
        sys.modules[MODULE] = module
        exec(code, module.__dict__)  # the learner's code: this process is its box
    except BaseException as error:
        tell(raised(error, file, stage))
        return None
    problem = (
        "" if callable(getattr(module, asked["function"], None)) else f"it defines no function {asked['function']}"
    )
    tell({"event": "loaded", "problem": problem})
    return module


def raised(error: BaseException, file: str, stage: str) -> dict[str, Any]:
    lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if entry.filename == file]
    line = lines[-1] if lines else None
    if isinstance(error, SyntaxError) and error.filename == file:
        line = error.lineno
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return {"event": "raised", "stage": stage, "type": type(error).__name__, "text": text[:1000], "line": line}


# ---- the driver


class Task:
    """Something that was submitted. The event that tells of it has the same object."""

    def __init__(self, number: int, function: str) -> None:
        self.number, self.function = number, function

    def __repr__(self) -> str:
        return f"<task {self.number}: {self.function}>"


class Event:
    """What became of a task: `kind` is "done" (`value` is what it returned), "failed" (`value` says what it raised) or
    "died" (its worker is gone)."""

    def __init__(self, kind: str, task: Task, value: Any) -> None:
        self.kind, self.task, self.value = kind, task, value

    def __repr__(self) -> str:
        return f"<{self.kind}: {self.task!r}>"


class Given:
    """A function that run() is given. In a task it is the function itself; the driver may only pass it on."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any) -> Any:
        raise RuntimeError(f"{self.__name__}() was called by the driver: submit a task that calls it")

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return given.named, (self.__name__,)


class Workers:
    """What run() is given to work with."""

    def __init__(self, module: types.ModuleType, hear: Hear, tell: Tell) -> None:
        self._module, self._hear, self._tell = module, hear, tell
        self._tasks: dict[int, Task] = {}

    def __len__(self) -> int:
        """How many workers live."""
        return int(self._ask({"event": "count"}).header["count"])

    def submit(self, fn: Callable[..., Any], *args: Any) -> Task:
        """Queue fn(*args) for the next idle worker. `fn` is a top-level function of the program."""
        name = getattr(fn, "__name__", "")
        if getattr(self._module, name, None) is not fn:
            raise TypeError(f"submit(fn, *args): fn is a top-level function of your program, not {fn!r}")
        task = Task(len(self._tasks), name)
        self._tasks[task.number] = task
        frame: types.FrameType | None = sys._getframe(1)
        self._tell({"event": "submit", "function": name, "line": frame and frame.f_lineno}, pickle.dumps(args))
        return task

    def wait_any(self, timeout: float | None = None) -> Event | None:
        """The next event; None after `timeout` seconds without one."""
        frame: types.FrameType | None = sys._getframe(1)
        wait = None if timeout is None else float(timeout)
        if wait is not None and not wait >= 0:
            raise ValueError(f"wait_any(timeout): a number of seconds from 0 on, or None, not {timeout!r}")
        answer = self._ask({"event": "wait", "timeout": wait, "line": frame and frame.f_lineno})
        told = answer.header
        if told["kind"] is None:
            return None
        value = pickle.loads(answer.blob) if told["kind"] == "done" else told.get("value")
        return Event(told["kind"], self._tasks[told["task"]], value)

    def _ask(self, header: dict[str, Any]) -> Message:
        self._tell(header)
        answer = self._hear()
        if answer is None:
            raise SystemExit("nobody grades any more")
        return answer


def _drive(module: types.ModuleType, asked: dict[str, Any], hear: Hear, tell: Tell) -> None:
    map_fn, reduce_fn, combine_fn = asked["functions"]
    more = {} if combine_fn is None else {"combine_fn": given.named(combine_fn)}
    workers = Workers(module, hear, tell)
    try:
        result = getattr(module, asked["call"])(
            Given(map_fn), Given(reduce_fn), asked["inputs"], workers, asked["reducers"], **more
        )  # fmt: skip
    except BaseException as error:
        tell(raised(error, module.__file__ or "", "call"))
        return
    if not isinstance(result, dict):
        tell({"event": "returned", "type": type(result).__name__})
        return
    tree, _ = frames.encode([list(pair) for pair in result.items()], lambda _: None)
    tell({"event": "returned", "type": "dict", "items": tree})


# ---- a worker


def work() -> int:
    channel = socket.socket(fileno=3)
    reader = frames.Reader()
    waiting: list[Any] = []

    def hear() -> Message | None:
        while not waiting:
            data = channel.recv(2**20)
            if not data:
                return None
            waiting.extend(reader.feed(data))
        message: Message = waiting.pop(0)
        return message

    def tell(header: dict[str, Any], blob: bytes = b"") -> None:
        channel.sendall(frames.pack_message(header, blob))

    tell({"event": "up"})
    first = hear()
    module = _loaded(first.header, tell) if first is not None else None
    while module is not None and (message := hear()) is not None:
        try:
            value = getattr(module, message.header["function"])(*pickle.loads(message.blob))
            blob = pickle.dumps(value)
        except Exception as error:
            tell({**raised(error, module.__file__ or "", "task"), "event": "failed"})
        else:
            tell({"event": "done"}, blob)
        sys.stdout.flush()
    return 0
