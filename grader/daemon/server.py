"""The warm service: everything is imported here once, and each command is done by a fork of it.

    python -m grader.daemon.server DESCRIPTOR PATH

DESCRIPTOR is a socket that listens already, at PATH. A fork has its client's terminal, folder and environment, and ends
when the client does. The service ends after ten minutes in which nobody wants anything, and when its socket is gone,
which is how a newer version of the files says that it is there.
"""

from __future__ import annotations

import atexit
import compileall
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import selectors
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from grader import packs
from grader.daemon.client import BEGUN, FORWARDED, READY, done_here
from grader.ranks import WORKER
from grader.sandbox import bwrap, supervise
from grader.sandbox.warm import BoxFailed, Warm

IDLE_SECONDS = 600.0
LOOK_SECONDS = 5.0  # how often it is looked whether the socket is there
REQUEST_SECONDS = 5.0  # that a request may take to be told
GRACE_SECONDS = 5.0  # that a command has to end in whose client is gone
NEEDED = (
    "cli", "grading", "registry", "progress", "classroom.grading", "classroom.terminal", "classroom.which",
    "classroom.lesson", "classroom.schedules", "classroom.watch", "classroom.running", "classroom.report",
    "classroom.service", "worlds.ranks", "trace.diagram",
)  # fmt: skip
ALSO = ("rich.markdown", "rich.syntax", "numpy.random", "grader.classroom.card", "grader.standing.gather",
        "grader.standing.terminal", "grader.classroom.pages.feedback")  # fmt: skip


@dataclass
class Request:
    """A command, and whose: the descriptors are stdin, stdout, stderr and the folder that it is given in."""

    arguments: list[str]
    environment: dict[str, str]
    streams: list[tuple[str, str]]
    umask: int
    descriptors: list[int]

    def do(self, warm: Warm) -> int:
        """In a fork: the exit status of the command."""
        *standard, here = self.descriptors
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
        os.fchdir(here)
        for descriptor in self.descriptors:
            os.close(descriptor)
        os.umask(self.umask)
        os.environ.clear()
        os.environ.update(self.environment)
        time.tzset()
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            encoding, errors = self.streams[number]
            buffering = 1 if number == 2 or os.isatty(number) else -1
            made = open(number, "w" if number else "r", buffering, encoding, errors, closefd=False)  # noqa: SIM115
            setattr(sys, name, made)
        sys.argv[1:] = self.arguments
        try:
            return done_here(self.arguments, warm)
        except SystemExit as ended:  # rich does so where nobody reads what it prints
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        finally:
            atexit._run_exitfuncs()
            with contextlib.suppress(OSError):
                sys.stdout.flush()


@dataclass
class _Command:
    """One that is being done, and to whom its end is to be said."""

    process: int
    client: socket.socket
    watches: bool  # for what is saved: now and then
    left: float | None = None  # when its client went


@dataclass
class Server:
    """Takes requests at a socket until it is idle for long, or replaced."""

    listening: socket.socket
    path: str
    warm: Warm
    _commands: list[_Command] = field(default_factory=list)
    _later: Iterator[None] = field(default_factory=lambda: _later())

    def serve(self) -> None:
        wakes, waker = socket.socketpair()
        waker.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        ours, used = _inode(self.path), time.monotonic()
        while self._commands or (ours and _inode(self.path) == ours and time.monotonic() - used < IDLE_SECONDS):
            with selectors.DefaultSelector() as selector:
                heard = [command.client for command in self._commands if command.left is None]
                for each in (self.listening, wakes, *heard):
                    selector.register(each, selectors.EVENT_READ)
                more = all(command.watches for command in self._commands) and next(self._later, self) is None
                ready = [key.fileobj for key, _ in selector.select(0 if more else LOOK_SECONDS)]
            if wakes in ready:
                wakes.recv(4096)
            for command in [command for command in self._commands if command.client in ready]:
                self._hear(command)
            if self.listening in ready:
                self._begin()
            self._reap()
            if self._commands:
                used = time.monotonic()
            if not self.warm.alive:  # nothing can be begun any more
                return

    def _begin(self) -> None:
        client, _ = self.listening.accept()
        descriptors: list[int] = []
        try:
            request = _heard(client, descriptors)
            process = supervise.fork(lambda: self._do(request, client))
            client.setblocking(False)
            self._commands.append(_Command(process, client, request.arguments[:1] == ["watch"]))
        except (OSError, ValueError, KeyError, TypeError):  # who asked does it without us
            client.close()
        for descriptor in descriptors:
            os.close(descriptor)

    def _do(self, request: Request, client: socket.socket) -> int:
        """In the fork."""
        client.sendall(BEGUN)
        for each in (self.listening, client, *(command.client for command in self._commands)):
            each.close()
        os.setpgid(0, 0)
        for number in FORWARDED:  # whoever started us may have ignored them
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.warm.borrow()
        return request.do(self.warm)

    def _hear(self, command: _Command) -> None:
        """Signals that a client had, or that it is gone: then what it wanted is ended."""
        numbers = b""
        with contextlib.suppress(OSError):
            numbers = command.client.recv(64)
        if not numbers and command.left is None:
            command.left, numbers = time.monotonic(), bytes([signal.SIGCONT, signal.SIGTERM])
        for number in numbers:
            with contextlib.suppress(OSError):  # there may be no such signal
                os.kill(command.process, number)

    def _reap(self) -> None:
        """Say of every command that is done with which status."""
        for command in list(self._commands):
            if command.left is not None and time.monotonic() - command.left > GRACE_SECONDS:
                os.kill(command.process, signal.SIGKILL)
            process, status = os.waitpid(command.process, os.WNOHANG)
            if process:
                code = os.waitstatus_to_exitcode(status)
                with contextlib.suppress(OSError):
                    command.client.send(bytes([code if code >= 0 else 128 - code]))
                command.client.close()
                self._commands.remove(command)


def _tried() -> None:
    """Have imported what typer imports when it reads its first command, and rich when it prints its first line."""
    from grader import cli

    cli.parser().make_context("rankup", ["list"])
    Console(file=io.StringIO()).print(":star: \u2605")


def _later() -> Iterator[None]:
    """Import, one by one, what a command may need that no command is to wait for: each exercise of ours. Those of other
    packs may be somebody's work, and are to be read anew by each command."""
    ours = importlib.import_module(packs.OURS)
    exercises = (f"{packs.OURS}.{module.name}" for module in pkgutil.iter_modules(ours.__path__))
    for name in (*ALSO, *exercises):
        with contextlib.suppress(Exception):  # the command that needs it says what is wrong
            importlib.import_module(name)
        yield
    gc.collect()
    gc.freeze()
    yield from _compiled()


def _compiled() -> Iterator[None]:
    """Have Python's compiled form of what boxes import, which they may not write: without it every host that starts
    compiles all that anew. Installed packages have it; a checkout has it of what is imported outside of boxes."""
    for path in [] if sys.dont_write_bytecode else bwrap.runtime():
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            compileall.compile_file(file, quiet=2)  # in vain where we may not, either
            yield


def _heard(client: socket.socket, descriptors: list[int]) -> Request:
    """What a client wants done; its descriptors are added to those given. Raises OSError, ValueError, KeyError and
    TypeError for what nobody can want."""
    client.settimeout(REQUEST_SECONDS)
    client.sendall(READY)
    size, given, *_ = socket.recv_fds(client, 4, 4)
    descriptors += given
    with client.makefile("rb") as stream:
        text = stream.read(int.from_bytes(size, "big"))
    client.settimeout(None)
    return Request(**json.loads(text), descriptors=descriptors)


def _inode(path: str) -> int | None:
    with contextlib.suppress(OSError):
        return os.stat(path).st_ino
    return None


def main(arguments: Sequence[str]) -> None:
    """Serve until nobody wants anything any more."""
    descriptor, path = arguments
    os.environ.pop("JPY_SESSION_NAME", None)  # whose notebook started us is nothing to us
    with contextlib.suppress(BoxFailed), Warm(WORKER) as warm:  # imports torch while we import the rest
        for name in NEEDED:
            importlib.import_module(f"grader.{name}")
        _tried()
        warm.wait_until_ready()
        gc.collect()
        gc.freeze()
        with socket.socket(fileno=int(descriptor)) as listening:
            Server(listening, path, warm).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
