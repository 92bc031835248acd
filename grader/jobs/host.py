"""A job's driver and its workers, in the box. They do what the grading process asks, and decide nothing.

The driver is a fork of the warm process: it calls the learner's function, and each submit() and wait_any() in there is
a message to the grading process and its answer. A worker is a fresh interpreter with a hash seed of its own, as on
another machine; it calls top-level functions of the same program. Arguments and results are pickled and unpickled in
these processes only; whoever carries them sees bytes.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
import types
from collections.abc import Callable
from typing import Any

from grader.jobs import given
from grader.sandbox import frames, program

START = __file__.replace("host.py", "start.py")


def size(value: Any) -> int:
    """How many bytes a value takes on its way from one process to another."""
    return len(pickle.dumps(value))


def serve(start: dict[str, Any], channel: frames.Channel) -> int:
    """Be the driver, or become a worker. Returns an exit status."""
    if start["role"] == "worker":
        environment = {**os.environ, "PYTHONHASHSEED": str(start["hash_seed"])}
        os.execve(sys.executable, [sys.executable, "-s", "-P", START], environment)
    module = _loaded(channel)
    job = channel.next() if module is not None else None
    if module is not None and job is not None:
        _drive(module, job.header, channel)
        sys.stdout.flush()
        channel.next()
    return 0


def _loaded(channel: frames.Channel) -> types.ModuleType | None:
    """Say that this process is up, and load the program that it is given; None if there is none, which was told."""
    channel.post({"event": "up"})
    message = channel.next()
    if message is None:
        return None
    asked, stage = message.header, "compile"
    try:
        code = compile(asked["source"], asked["file"], "exec", dont_inherit=True)
        stage = "load"
        module = program.load(code, asked["source"], asked["file"])
    except BaseException as error:
        channel.post(program.raised(error, asked["file"], stage))
        return None
    found = callable(getattr(module, asked["function"], None))
    channel.post({"event": "loaded", "problem": "" if found else f"does not define {asked['function']}"})
    return module


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
        raise RuntimeError(f"{self.__name__}() was called in the driver: submit a task that calls it")

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return given.named, (self.__name__,)


class Workers:
    """What run() is given to work with."""

    def __init__(self, module: types.ModuleType, channel: frames.Channel) -> None:
        self._module, self._channel = module, channel
        self._tasks: dict[int, Task] = {}

    def __len__(self) -> int:
        """How many workers live."""
        return int(self._ask({"event": "count"}).header["count"])

    def submit(self, fn: Callable[..., Any], *args: Any) -> Task:
        """Queue fn(*args) for the next idle worker. `fn` is a top-level function of the program."""
        name = getattr(fn, "__name__", "")
        if getattr(self._module, name, None) is not fn:
            raise TypeError(f"submit(fn, *args): fn must be a top-level function of your program, not {fn!r}")
        task = Task(len(self._tasks), name)
        self._tasks[task.number] = task
        frame: types.FrameType | None = sys._getframe(1)
        self._channel.post({"event": "submit", "function": name, "line": frame and frame.f_lineno}, pickle.dumps(args))
        return task

    def wait_any(self, timeout: float | None = None) -> Event | None:
        """The next event; None after `timeout` seconds without one."""
        frame: types.FrameType | None = sys._getframe(1)
        wait = None if timeout is None else float(timeout)
        if wait is not None and not wait >= 0:
            raise ValueError(f"wait_any(timeout) takes None or a number of seconds that is 0 or more, not {timeout!r}")
        answer = self._ask({"event": "wait", "timeout": wait, "line": frame and frame.f_lineno})
        told = answer.header
        if told["kind"] is None:
            return None
        value = pickle.loads(answer.blob) if told["kind"] == "done" else told.get("value")
        return Event(told["kind"], self._tasks[told["task"]], value)

    def _ask(self, header: dict[str, Any]) -> frames.Message:
        self._channel.post(header)
        answer = self._channel.next()
        if answer is None:
            raise SystemExit("the grading has ended")
        return answer


def _drive(module: types.ModuleType, asked: dict[str, Any], channel: frames.Channel) -> None:
    map_fn, reduce_fn, combine_fn = asked["functions"]
    more = {} if combine_fn is None else {"combine_fn": given.named(combine_fn)}
    workers = Workers(module, channel)
    try:
        result = getattr(module, asked["call"])(
            Given(map_fn), Given(reduce_fn), asked["inputs"], workers, asked["reducers"], **more
        )  # fmt: skip
    except BaseException as error:
        channel.post(program.raised(error, module.__file__ or "", "call"))
        return
    if not isinstance(result, dict):
        channel.post({"event": "returned", "type": type(result).__name__})
        return
    tree, _ = frames.encode([list(pair) for pair in result.items()], lambda _: None)
    channel.post({"event": "returned", "type": "dict", "items": tree})


def work() -> int:
    """Be a worker: call what is asked, until nobody asks."""
    channel = frames.Channel(socket.socket(fileno=3))
    module = _loaded(channel)
    while module is not None and (message := channel.next()) is not None:
        try:
            value = getattr(module, message.header["function"])(*pickle.loads(message.blob))
            blob = pickle.dumps(value)
        except Exception as error:
            channel.post({**program.raised(error, module.__file__ or "", "task"), "event": "failed"})
        else:
            channel.post({"event": "done"}, blob)
        sys.stdout.flush()
    return 0
