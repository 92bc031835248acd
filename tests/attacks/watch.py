"""What an attack must leave as it was: processes, files, a canary, listeners, signals, and the grader's memory."""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType

import psutil

REPOSITORY = Path(__file__).parents[2]
SETTLE_SECONDS = 15.0  # within which processes that were told to end must be gone
MOST_MEMORY = 1000 * 2**20  # bytes that grading one submission may add to the grading process
MOST_DESCRIPTORS = 16
RING_AGAIN_SECONDS = 5.0
MOST_MORE_MEMORY = 3 * 2**30  # of address space, beyond which the grading process gets a MemoryError


def _folders() -> list[Path]:
    """Where a submission could leave something: looked through by name, not below."""
    import site

    package = REPOSITORY / "grader"
    home = Path.home()
    found = [
        *map(
            Path,
            ("/", "/tmp", "/dev/shm", "/dev/mqueue", "/var/tmp", "/run", "/run/lock", "/etc", "/etc/cron.d", "/opt"),
        ),
        *(Path(os.environ[name]) for name in ("TMPDIR", "XDG_RUNTIME_DIR") if name in os.environ),
        *(home, home / ".cache", home / ".config", home / ".local", Path(site.getusersitepackages())),
        *(REPOSITORY, Path.cwd(), *map(Path, site.getsitepackages()), Path(sys.prefix), Path(sys.prefix) / "bin"),
        *(folder for folder in (package, *package.rglob("*")) if folder.is_dir()),
    ]
    return [folder for folder in dict.fromkeys(found) if folder.is_dir()]


class Watch:
    """Watches while one submission is graded; `problems()` then says what is not as it was.

    `words` are what attacks are made with (see `corpus`). Everything is found by the token in its name: other tests and
    other people may work on this machine at the same time.
    """

    def __init__(self, canary: Path) -> None:
        self.token = secrets.token_hex(4)
        self.name = f"atk-{self.token}"  # of processes: at most 15 characters
        self.secret = f"rankup-secret-{secrets.token_hex(8)}"
        self.canary = canary
        self._files = {"secret.txt": self.secret.encode(), "untouched.txt": b"as it was\n"}
        self._signals = 0
        self._threads = threading.active_count()
        self._listeners: list[socket.socket] = []

    def __enter__(self) -> Watch:
        for name, data in self._files.items():
            (self.canary / name).write_bytes(data)
        tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        tcp.bind(("127.0.0.1", 0))
        self._port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", self._port))
        abstract, path = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        abstract.bind(f"\0{self.name}")
        path.bind(str(self.canary / "socket"))
        for listener in (tcp, abstract, path):
            listener.listen()
        self._listeners = [tcp, udp, abstract, path]
        for each in self._listeners:
            each.setblocking(False)
        # somebody else's process, with a secret in its environment and on its command line
        self._bystander = subprocess.Popen(
            [sys.executable, "-c", "input()", self.secret], stdin=subprocess.PIPE, env={"SECRET": self.secret}
        )
        self._before = signal.signal(signal.SIGURG, self._on_signal)
        self._descriptors = self._count_descriptors()
        with contextlib.suppress(OSError):  # from here on the kernel keeps the peak
            Path("/proc/self/clear_refs").write_text("5")
        self._memory = self._peak_memory()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        signal.signal(signal.SIGURG, self._before)
        self._bystander.kill()
        self._bystander.communicate()
        for listener in self._listeners:
            listener.close()
        for process in self._left():
            with contextlib.suppress(psutil.Error):
                keeper = process.parent()
                if keeper is not None and keeper.status() == psutil.STATUS_STOPPED:
                    keeper.kill()  # stopped by the attack, it would keep them as zombies
                process.kill()
        for path in self._files_left():
            with contextlib.suppress(OSError):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    @property
    def words(self) -> dict[str, str]:
        return {
            "TOKEN": self.token,
            "NAME": self.name,
            "CANARY": str(self.canary),
            "PORT": str(self._port),
            "GRADER": str(os.getpid()),
            "BYSTANDER": str(self._bystander.pid),
            "NAMESPACE": os.readlink("/proc/self/ns/pid"),
            "REPOSITORY": str(REPOSITORY),
            "HOME": str(Path.home()),
        }

    def problems(self, told: str) -> list[str]:
        """What the attack did that it must not, in words; `told` is all that came out of the grading."""
        return list(self._problems(told))

    def _problems(self, told: str) -> Iterator[str]:
        from corpus import WON

        if WON in told:
            yield f"it says so itself: {told[told.index(WON) :].splitlines()[0][:200]}"
        if self.secret in told:
            yield "it told a secret that it cannot know"
        left = self._left()
        _, alive = psutil.wait_procs(left, timeout=SETTLE_SECONDS)
        if alive:
            yield f"it left {len(alive)} processes, such as {alive[0].pid}"
        files = self._files_left()
        if files:
            yield f"it left {', '.join(map(str, files))}"
        if any(f" {int(self.token[:7], 16)} " in line for line in _shared_memory()):
            yield "it left shared memory"
        yield from self._canary_problems()
        if any(_was_reached(listener) for listener in self._listeners):
            yield "it reached a listener of the machine's own"
        if self._signals:
            yield "it sent a signal to the grading process"
        if self._bystander.poll() is not None:
            yield "it ended somebody else's process"
        grown = self._peak_memory() - self._memory
        if grown > MOST_MEMORY:
            yield f"it made the grading process take {grown / 2**20:.0f} MiB"
        if self._count_descriptors() > self._descriptors + MOST_DESCRIPTORS:
            yield f"{self._count_descriptors() - self._descriptors} descriptors more are open now"
        if threading.active_count() > self._threads:
            yield f"{threading.active_count() - self._threads} threads of the grading process are left"

    def _canary_problems(self) -> Iterator[str]:
        names = {path.name for path in self.canary.iterdir()} - {"socket"}
        if names != set(self._files):
            yield f"the canary folder now has {', '.join(sorted(names))}"
        for name, data in self._files.items():
            path = self.canary / name
            if path.exists() and path.read_bytes() != data:
                yield f"{name} in the canary folder was changed"

    def _left(self) -> list[psutil.Process]:
        """Processes that are called by the name of this watch, whoever their parent is."""
        return [process for process in psutil.process_iter(["name"]) if process.info["name"] == self.name]

    def _files_left(self) -> list[Path]:
        found = []
        for folder in _folders():
            with contextlib.suppress(OSError):
                found += [path for path in folder.iterdir() if self.token in path.name]
        return [path for path in found if path != self.canary]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    @staticmethod
    def _count_descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    @staticmethod
    def _peak_memory() -> int:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0


def _shared_memory() -> list[str]:
    with contextlib.suppress(OSError):
        return Path("/proc/sysvipc/shm").read_text().splitlines()
    return []


def _was_reached(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_DGRAM:
            return bool(listener.recv(64))
        listener.accept()[0].close()
        return True
    except BlockingIOError:
        return False


class Hung(KeyboardInterrupt):
    """Raised in a grading that takes longer than anything may: it ends as at Ctrl-C."""


class Guard:
    """Keeps an attack that wins from taking the machine with it: a test that hangs, or takes all memory, tells nothing.

    Raises Hung in what is done within after so many seconds, and again until it is over, and calls `rescue` before.
    Gives this process MOST_MORE_MEMORY. Only in the main thread.
    """

    def __init__(self, seconds: float, rescue: Callable[[], None]) -> None:
        self._allowed, self._rescue = seconds, rescue
        self.rang = False
        self.seconds = 0.0

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if not self.rang:
            self.rang = True
            self._rescue()
        raise Hung

    def __enter__(self) -> Guard:
        self._started = time.monotonic()
        self._limits = resource.getrlimit(resource.RLIMIT_AS)
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MOST_MORE_MEMORY, self._limits[1]))
        self._handler = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self._allowed, RING_AGAIN_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, self._handler)
        self.seconds = time.monotonic() - self._started
        resource.setrlimit(resource.RLIMIT_AS, self._limits)
