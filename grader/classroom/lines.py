"""Lines of JSON between processes of ours: over a socket, or to a process that is started for it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from grader.sandbox.supervise import Handle, tree

PATIENCE = 10.0  # seconds for what a process started to end after it
_PIECE = 1 << 20


class Lines:
    """One object a line, sent to one file descriptor and heard from another."""

    def __init__(self, to: int, source: int) -> None:
        self._to, self._from, self._rest = to, source, b""

    def tell(self, what: dict[str, Any]) -> None:
        """Send a line. That nobody is there any more is found when the answer is read."""
        line = json.dumps(what).encode() + b"\n"
        with contextlib.suppress(OSError):
            while line:
                line = line[os.write(self._to, line) :]

    def hear(self, seconds: float | None = None) -> dict[str, Any] | None:
        """The next line; None if it does not come in time. Raises EOFError at the end, ValueError for nonsense."""
        until = None if seconds is None else time.monotonic() + seconds
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            if self._from < 0:
                raise EOFError
            if not _readable(self._from, None if until is None else until - time.monotonic()):
                return None
            try:
                piece = os.read(self._from, _PIECE)
            except OSError:
                piece = b""
            if not piece:
                raise EOFError
            parts.append(piece)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        said = json.loads(line)
        if not isinstance(said, dict):
            raise ValueError(said)
        return said


class Process(Lines):
    """A process that is told by its stdin and heard by its stdout. Ctrl-C in the terminal does not reach it."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None) -> None:
        with contextlib.ExitStack() as stack:
            self._errors = stack.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=env,
                cwd=cwd, start_new_session=True,
            )  # fmt: skip
            stack.pop_all()  # closed in end()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        super().__init__(self._process.stdin.fileno(), self._process.stdout.fileno())
        self._below: list[Handle] | None = None  # what it started, once it is to end

    @property
    def alive(self) -> bool:
        return self._below is None and self._process.poll() is None

    def last_words(self) -> tuple[str, int | None]:
        """The last line of its stderr, and its exit status: why it is gone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        lines: list[str] = []
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return (lines or [""])[-1].strip(), self._process.returncode

    def finish(self, seconds: float) -> None:
        """Let it end by itself, at the end of its stdin; not for longer than so many seconds."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._to = -1
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.end()

    def kill(self) -> None:
        """Make it end, with everything that it started; whoever hears it hears the end."""
        if self._below is None:
            self._below = [found for pid in tree(self._process.pid)[1:] if (found := _open(pid)) is not None]
            self._process.kill()

    def wait(self) -> None:
        """Kill it, and wait until the last of what it started is gone."""
        self.kill()
        self._process.wait()
        until = time.monotonic() + PATIENCE  # they end by themselves: the sockets of the process are closed
        for each in self._below or ():
            if not each.ended(until - time.monotonic()):
                each.send(signal.SIGKILL)
                each.ended(PATIENCE)
            each.close()
        self._below = []

    def end(self) -> None:
        """Kill it, wait until all of it is gone, and close what leads to it: nobody may hear it any more."""
        self.wait()
        self._to = self._from = -1
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def _readable(fd: int, seconds: float | None) -> bool:
    """Wait so long until there is something to read, or an end of it."""
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else max(0.0, seconds * 1000)))


def _open(pid: int) -> Handle | None:
    try:
        return Handle(pid)
    except OSError:
        return None
