"""What can befall a class while it is graded, planned from a seed and done to a run as it goes on."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.sandbox import supervise

WORKER, HOST = "grader.classroom.service", "grader.sandbox.host"
KINDS = {
    "worker": "a worker killed",
    "host": "a warm host killed, or the walls around it",
    "disk": "the disk full",
    "lock": "the gradebook locked",
    "command": "the whole command killed",
}
SHARE = {"worker": 50, "host": 50, "disk": 250, "lock": 200, "command": 200}  # one fault in so many gradings
CALM_AFTER = 0.7  # share of the class after which nothing befalls it any more: memory is followed there
_INSIDE = "RANKUP_SOAK_INSIDE"
_MNT_DETACH = 2


@dataclass(frozen=True)
class Fault:
    """One fault: what, after how many gradings, how many seconds later, and for how many seconds."""

    kind: str
    after: int
    delay: float
    seconds: float


def plan(gradings: int, factor: float, seed: int, kinds: Sequence[str]) -> list[Fault]:
    """So many of each kind at random, by when they come; `factor` times as many as usual."""
    draw = random.Random(seed)
    made = []
    for kind in kinds:
        for number in range(max(1, int(factor * gradings / SHARE[kind]))):
            seconds = {"disk": draw.uniform(1, 4), "lock": (1.5, 8.0)[number % 2]}.get(kind, 0.0)
            made.append(Fault(kind, draw.randrange(int(gradings * CALM_AFTER)), draw.uniform(0, 1.5), seconds))
    return sorted(made, key=lambda fault: fault.after)


def command_line(pid: int) -> list[str]:
    """Empty if it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().split("\0")[:-1]
    except OSError:
        return []


def workers(run: int) -> list[int]:
    """The workers of a run."""
    return [pid for pid in supervise.tree(run)[1:] if WORKER in command_line(pid)]


def hosts(worker: int) -> list[int]:
    """A worker's warm host, last, and before it the processes of its walls, where it has any."""
    found = []
    for pid in supervise.tree(worker)[1:]:  # parents first: what comes after the host is below it
        line = command_line(pid)
        if HOST in line:
            found.append(pid)
            if "bwrap" not in os.path.basename(line[0]):
                return found
    return found


@dataclass
class Injector:
    """Does what is planned to a run, one fault after the other, in a thread of its own.

    Set from outside: `run`, None while there is none, and `count`, how many gradings there have been. `done` counts
    what was done, by kind; `error` says why no more faults come, if that is not because all were done.
    """

    faults: list[Fault]
    folder: Path
    seed: int
    run: subprocess.Popen[str] | None = None
    count: int = 0
    done: Counter[str] = field(default_factory=Counter)
    error: str = ""
    stopped: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._draw = random.Random(self.seed)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Do nothing more; what is being done is undone."""
        self.stopped.set()
        self._thread.join()

    @property
    def left(self) -> int:
        """How many faults are still to come."""
        return len(self.faults)

    def _work(self) -> None:
        try:
            while self.faults and not self.stopped.wait(0.05):
                fault = self.faults[0]
                if self.count >= fault.after and self.run:
                    self.stopped.wait(fault.delay)
                    if self._inject(fault):
                        self.done[fault.kind] += 1
                        self.faults.pop(0)
        except Exception as error:  # the run must not wait for faults that never come
            self.error = f"{type(error).__name__}: {error}"

    def _inject(self, fault: Fault) -> bool:
        """False if there was nobody to do it to: it is tried again."""
        if fault.kind == "disk":
            with _full(self.folder):
                self.stopped.wait(fault.seconds)
            return True
        if fault.kind == "lock":
            with _locked(self.folder / "gradebook.db"):
                self.stopped.wait(fault.seconds)
            return True
        run = self.run
        if run is None or run.returncode is not None:
            return False
        if fault.kind == "command":
            run.kill()
            return True
        victims = workers(run.pid)
        if fault.kind == "host":
            victims = [pid for worker in victims for pid in hosts(worker)]
        with contextlib.suppress(IndexError, ProcessLookupError):
            os.kill(self._draw.choice(victims), signal.SIGKILL)
            return True
        return False


@contextlib.contextmanager
def _full(folder: Path) -> Iterator[None]:
    """Not a block is left on the folder's file system."""
    path = folder / "filler"
    filler = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    os.write(filler, b"\0" * size)
        yield
    finally:
        os.close(filler)
        path.unlink()


@contextlib.contextmanager
def _locked(gradebook: Path) -> Iterator[None]:
    """Nobody else may read or write the gradebook."""
    book = sqlite3.connect(gradebook, timeout=60, isolation_level=None)
    try:
        book.execute("begin exclusive")
        yield
        book.execute("rollback")
    finally:
        book.close()


def why_not_inside() -> str:
    """Go into a mount namespace of our own, in which a folder can be a small disk: runs this program anew.

    Returns "" once we are in it, or else the reason why that cannot be.
    """
    if os.environ.pop(_INSIDE, ""):
        return ""
    program = shutil.which("unshare")
    if program is None:
        return "there is no unshare"
    own = [program, "-m"] if os.geteuid() == 0 else [program, "-U", "-r", "-m"]
    tried = subprocess.run([*own, "true"], capture_output=True, text=True)
    if tried.returncode == 0:
        sys.stdout.flush()
        os.execve(own[0], [*own, sys.executable, *sys.orig_argv[1:]], {**os.environ, _INSIDE: "yes"})
    return tried.stderr.strip() or "unshare fails"


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """Make the folder a disk of `size` bytes, in memory. Raises OSError; only where `why_not_inside` says nothing."""
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"rankup", os.fsencode(folder), b"tmpfs", 0, f"size={size},mode=755".encode()):
        raise OSError(ctypes.get_errno(), "no small disk can be mounted")
    try:
        yield
    finally:
        attempts = 50  # what used it may need a moment to end
        while libc.umount2(os.fsencode(folder), 0) and attempts:
            attempts -= 1
            time.sleep(0.1)
        libc.umount2(os.fsencode(folder), _MNT_DETACH)
