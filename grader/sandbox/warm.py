"""The grading process's side of a warm host: start it, ask it for worlds, end it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from grader.sandbox.host import MAX_RANKS


class BoxFailed(Exception):  # noqa: N818 - reads as what happened
    """The warm host did not start, or ended while it was needed."""


@dataclass
class Box:
    """One world's processes: a frame socket, stdout and stderr per rank, and the keeper that ends them."""

    keeper: socket.socket
    frames: list[socket.socket] = field(default_factory=list)
    stdout: list[int] = field(default_factory=list)
    stderr: list[int] = field(default_factory=list)
    scratch: str = ""
    pids: list[int] = field(default_factory=list)

    def ask_for_stacks(self) -> None:
        """Have every rank write where it is (see `worker`)."""
        with contextlib.suppress(OSError):
            self.keeper.send(b"stacks")

    def end(self) -> None:
        """Kill every process of this world, wait until the last is gone, and remove its files."""
        with contextlib.suppress(OSError):
            self.keeper.settimeout(10)
            self.keeper.send(b"kill")
            while self.keeper.recv(4096):  # end of file: the keeper has no child left and is gone itself
                pass
        self.keeper.close()
        for sock in self.frames:
            sock.close()
        for fd in (*self.stdout, *self.stderr):
            os.close(fd)
        self.frames, self.stdout, self.stderr = [], [], []
        shutil.rmtree(self.scratch, ignore_errors=True)


class Warm:
    """A host process that has imported `module` and forks worlds on request. Safe to use from several threads.

    The module is imported in the background: the constructor returns at once, and the first world waits for it.
    """

    def __init__(self, module: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        self._lock = threading.Lock()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._ready = self._closed = False
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-P", "-m", "grader.sandbox.host", str(theirs.fileno()), module],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env=_environment(),
            start_new_session=True,  # Ctrl-C in the terminal is ours to handle
        )
        theirs.close()

    def box(self, ranks: int) -> Box:
        """A new world of `ranks` processes. Raises BoxFailed when the host is gone."""
        if not 1 <= ranks <= MAX_RANKS:
            raise ValueError(f"a world of {ranks} real processes: 1 to {MAX_RANKS} are possible")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        box = Box(ours, scratch=tempfile.mkdtemp(prefix="rankup-"))
        give = [theirs.detach()]
        try:
            for _ in range(ranks):
                mine, yours = socket.socketpair()
                box.frames.append(mine)
                give.append(yours.detach())
                for ends in (box.stdout, box.stderr):
                    read, write = os.pipe()
                    ends.append(read)
                    give.append(write)
            request = json.dumps({"ranks": ranks, "scratch": box.scratch}).encode()
            self.wait_until_ready()
            with self._lock:
                socket.send_fds(self._control, [request], give)
        except OSError:
            box.end()
            raise BoxFailed(self._why()) from None
        except BaseException:
            box.end()
            raise
        finally:
            for fd in give:
                os.close(fd)
        return box

    def wait_until_ready(self) -> None:
        """Wait until the module is imported. Raises BoxFailed if that failed."""
        with self._lock:
            if not self._ready and self._control.recv(64) != b"ready":
                raise BoxFailed(self._why())
            self._ready = True

    def _why(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        return f"the warm process ended: {last[0] if last else f'status {self._process.returncode}'}"

    def close(self) -> None:
        """End the host and everything below it."""
        if self._closed:
            return
        self._closed = True
        self._control.close()
        if not self._ready:
            self._process.kill()  # still importing, and nothing is below it yet
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self._errors.close()

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _environment() -> dict[str, str]:
    """What a learner's code sees: nothing of the caller's environment but where programs and temporary files are."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    return {
        **kept,
        "HOME": str(Path(tempfile.gettempdir())),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",  # a fork after a multi-threaded tensor operation hangs in matmul
        "MKL_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        # a heap in huge pages has fewer page table entries to copy: forks and exits take half the time
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }
