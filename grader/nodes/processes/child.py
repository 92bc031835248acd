"""One life of one node: its process, what is read from it and written to it, all of it bounded."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from grader.nodes.processes.loop import READ, WRITE, Loop
from grader.nodes.protocol import LONGEST_LINE

NANNY = str(Path(__file__).with_name("nanny.py"))
DISK = "NODE_DISK"  # the variable that names the node's own folder
CHUNK = 2**16
MOST_WAITING = 10_000  # messages that a node has not read yet
MOST_WAITING_BYTES = 32 * 2**20
LOG_BYTES = 2**16  # of stderr that are kept, the last ones
LEFT_IN_PIPE = 2**20  # of stdout that are still read when a node has ended


class Log:
    """The end of what a node wrote to stderr, over all its lives."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self._kept += data
        self.total += len(data)
        del self._kept[:-LOG_BYTES]

    def text(self) -> str:
        text = self._kept.decode("utf-8", "backslashreplace")
        left_out = self.total - len(self._kept)
        return f"... ({left_out:,} bytes before this)\n{text}" if left_out else text


class Child:
    """A running node, whose environment has DISK.

    Callbacks: `on_line(line)`, `on_long(beginning of the line)`, `on_end(status or failure)`.

    After `on_end` nothing of it is left, and no other callback comes. A status is as `os.waitstatus_to_exitcode`
    gives it; a failure is the OSError that kept the command from being run.
    """

    def __init__(
        self,
        loop: Loop,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Log,
        on_line: Callable[[bytes], None],
        on_long: Callable[[bytes], None],
        on_end: Callable[[int | OSError], None],
    ) -> None:
        self._loop, self._log = loop, log
        self._on_line, self._on_long, self._on_end = on_line, on_long, on_end
        self._partial = bytearray()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = self._written = 0  # of the first line that waits, `_written` bytes are gone
        self._status: int | OSError | None = None
        self.pid: int | None = None  # the node's own process, once it runs
        self.over = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", NANNY, str(theirs.fileno()), environment[DISK], *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C at the terminal is the harness's business
            )
        self._pipes = [pipe.fileno() for pipe in self._streams()]
        self._stdin, self._stdout, self._stderr = self._pipes
        for fd in (self._control.fileno(), *self._pipes):
            os.set_blocking(fd, False)
        loop.watch(self._control.fileno(), READ, self._hear)
        loop.watch(self._stdout, READ, self._read)
        loop.watch(self._stderr, READ, self._read_log)

    @property
    def waiting(self) -> int:
        """How many messages the node has not read."""
        return len(self._waiting)

    def write(self, line: bytes) -> bool:
        """Put a line in the queue of what the node has to read; False if that is full, or the node is gone."""
        if self.over or len(self._waiting) >= MOST_WAITING or self._waiting_bytes > MOST_WAITING_BYTES:
            return False
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        if len(self._waiting) == 1:
            self._flush()
            if self._waiting and not self.over:
                self._loop.watch(self._stdin, WRITE, self._flush)
        return True

    def hold(self, held: bool) -> None:
        """While held, nothing is read from the node: it waits in its own `print` when its pipe is full."""
        self._loop.unwatch(self._stdout)
        if not held and not self.over:
            self._loop.watch(self._stdout, READ, self._read)

    def stop(self) -> None:
        """SIGSTOP all its processes."""
        self._ask(b"stop")

    def go_on(self) -> None:
        """SIGCONT all its processes."""
        self._ask(b"cont")

    def kill(self) -> None:
        """SIGKILL all its processes; `on_end` tells when they are gone."""
        self._ask(b"kill")

    def _ask(self, what: bytes) -> None:
        with contextlib.suppress(OSError):
            self._control.send(what)

    def _hear(self) -> None:
        """The nanny has something to say, or is gone."""
        try:
            said = self._control.recv(64)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        word, _, number = said.decode().partition(" ")
        if word == "started":
            self.pid = int(number)
        elif word == "failed":
            self._status = OSError(int(number), os.strerror(int(number)))
        elif word == "ended":
            self._status = int(number)
        else:
            self._end()

    def _end(self) -> None:
        if self.over:
            return
        self._drain()
        self.over = True
        for fd in (self._control.fileno(), *self._pipes):
            self._loop.unwatch(fd)
        self._control.close()
        status = self._process.wait()
        for pipe in self._streams():
            pipe.close()
        # no word of the node's status: somebody killed the nanny, and the node with it
        self._on_end(status if self._status is None else self._status)

    def _streams(self) -> list[IO[bytes]]:
        found = (self._process.stdin, self._process.stdout, self._process.stderr)
        return [pipe for pipe in found if pipe is not None]

    def _read(self) -> bool:
        """Take in a part of stdout; False at its end, or if there is nothing now."""
        try:
            data = os.read(self._stdout, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._loop.unwatch(self._stdout)
            return False
        first, *rest = data.split(b"\n")
        self._partial += first
        for line in rest:
            whole, self._partial = bytes(self._partial), bytearray(line)
            if len(whole) > LONGEST_LINE:
                self._on_long(whole)
            elif whole.strip():
                self._on_line(whole)
            if self.over:
                return False
        if len(self._partial) > LONGEST_LINE:
            whole, self._partial = bytes(self._partial), bytearray()
            self._on_long(whole)
        return True

    def _read_log(self) -> bool:
        try:
            data = os.read(self._stderr, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._loop.unwatch(self._stderr)
        self._log.add(data)
        return bool(data)

    def _drain(self) -> None:
        """Take in what the node left in its pipes."""
        for read in (self._read_log, self._read):
            for _ in range(LEFT_IN_PIPE // CHUNK):
                if not read():
                    break

    def _flush(self) -> None:
        """Write what the node's pipe takes."""
        try:
            while self._waiting:
                line = self._waiting[0]
                self._written += os.write(self._stdin, memoryview(line)[self._written :])
                if self._written < len(line):
                    return
                self._waiting.popleft()
                self._waiting_bytes -= len(line)
                self._written = 0
        except BlockingIOError:
            return
        except BrokenPipeError:  # it closed its stdin, and perhaps is ending
            self._waiting.clear()
            self._waiting_bytes = self._written = 0
        self._loop.unwatch(self._stdin)


def status_text(status: int) -> str:
    """How a process ended, in words: "status 1", "signal 11 (SIGSEGV)"."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"signal {-status}"
