"""The grading process's side of a warm host: start it, ask it for worlds, end it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from grader.sandbox import LINUX, bwrap, modes, packets, supervise
from grader.sandbox.folder import Folder, hold, written
from grader.sandbox.host import MAX_RANKS, REFUSED
from grader.sandbox.limits import BoxLimits

NOTE_BYTES = 2**20
NUMBER_BYTES = 8  # a note begins with a number, and goes on with text


class BoxFailed(Exception):  # noqa: N818 - reads as what happened
    """The warm host did not start, or ended while it was needed."""


class Unwatched(BoxFailed):
    """A box's keeper ended, or did not answer: what was done in the box cannot be judged, whoever is to blame."""


@dataclass
class Box:
    """One world's processes: a frame socket, stdout, stderr and note per rank, and the keeper that ends them.

    `room` is where what it writes into a folder of the user's goes (see `folder`). `cpu` is what the keeper last
    said of the ranks' CPU seconds, `delayed` of those that they waited for a processor.
    """

    keeper: packets.Packets
    frames: list[socket.socket] = field(default_factory=list)
    stdout: list[int] = field(default_factory=list)
    stderr: list[int] = field(default_factory=list)
    notes: list[int] = field(default_factory=list)
    scratch: str = ""
    cpu: list[float] = field(default_factory=list)
    delayed: list[float] = field(default_factory=list)
    room: int = -1

    def written(self) -> tuple[str, ...]:
        """What was written into the folder that it shows, as far as that is gone with it."""
        return written(self.room) if self.room >= 0 else ()

    def number_of(self, rank: int) -> int:
        """The number in the rank's note."""
        told = os.pread(self.notes[rank], NUMBER_BYTES, 0)
        return int.from_bytes(told, "little", signed=True)

    def text_of(self, rank: int) -> str:
        """The text in the rank's note."""
        text = os.pread(self.notes[rank], NOTE_BYTES, NUMBER_BYTES)
        return text.rstrip(b"\0").decode(errors="replace")

    def ask_for_stacks(self) -> None:
        """Have every rank write where it is (see `worker`)."""
        with contextlib.suppress(OSError):
            self.keeper.put(b"stacks")

    def kill(self) -> None:
        """Kill every process of this world; whoever has the box sees that, and ends it."""
        with contextlib.suppress(OSError):
            self.keeper.put(b"kill")

    def end(self) -> None:
        """Kill every process of this world, wait until the last is gone, and remove its files."""
        with contextlib.suppress(OSError):
            self.keeper.settimeout(10)
            self.kill()
            while self.keeper.take():  # end of file: the keeper has no child left and is gone itself
                pass
        self.keeper.close()
        for sock in self.frames:
            sock.close()
        for fd in (*self.stdout, *self.stderr, *self.notes, *([self.room] if self.room >= 0 else [])):
            os.close(fd)
        self.room = -1
        self.frames, self.stdout, self.stderr, self.notes = [], [], [], []
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)


class Warm:
    """A host process that has imported `module` and forks worlds on request. Safe to use from several threads.

    The module is imported in the background: the constructor returns at once, and the first world waits for it.
    Boxes are made in the best mode that works here (see `modes`); `mode` says which, once it is ready.
    """

    def __init__(self, module: str) -> None:
        self._modes = [mode for mode in modes.wanted() if mode != "full" or bwrap.program()]
        if not self._modes:
            raise BoxFailed(modes.why_not("full"))
        self._module = module
        self._lock = threading.Lock()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._ready = self._closed = self._borrowed = False
        self._imported: set[str] = set()
        self._start()

    @property
    def mode(self) -> modes.Mode:
        return self._modes[0]

    def _start(self) -> None:
        ours, theirs = packets.pair()
        self._control = ours
        self._process = subprocess.Popen(
            modes.command(self.mode, str(theirs.fileno()), self._module, self.mode),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            # a heap in huge pages has fewer page table entries to copy: forks and exits take half the time
            env={**bwrap.environment(), "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
            start_new_session=True,  # Ctrl-C in the terminal is ours to handle
        )
        theirs.close()

    def box(
        self, ranks: int, limits: BoxLimits | None = None, imported: Sequence[str] = (), folder: Folder | None = None
    ) -> Box:
        """A new box with `ranks` processes, in which these modules are there already, and which work in `folder`.

        Raises BoxFailed when the host is gone, and NotShown where the box cannot have the folder.
        """
        if not 1 <= ranks <= MAX_RANKS:
            raise ValueError(f"a world of {ranks} real processes: 1 to {MAX_RANKS} are possible")
        if ranks > 1 and not LINUX:
            raise BoxFailed("several real processes in one box need Linux")
        ours, theirs = packets.pair()
        box = Box(ours, cpu=[0.0] * ranks, delayed=[0.0] * ranks)
        give = [theirs.detach()]
        try:
            self.wait_until_ready()
            if self.mode != "full":
                box.scratch = tempfile.mkdtemp(prefix="rankup-")
            for _ in range(ranks):
                mine, yours = socket.socketpair()
                box.frames.append(mine)
                give.append(yours.detach())
                for ends in (box.stdout, box.stderr):
                    read, write = os.pipe()
                    ends.append(read)
                    give.append(write)
                box.notes.append(note())
                give.append(os.dup(box.notes[-1]))
            if folder is not None and self.mode == "full":
                tree, box.room = hold(folder)
                give.append(tree)
            allowed = (limits or BoxLimits()).to_json()
            shown = folder.to_json() if folder is not None else None
            request = json.dumps({"ranks": ranks, "limits": allowed, "scratch": box.scratch, "folder": shown}).encode()
            with self._lock:
                self._import([name for name in imported if name not in self._imported])
                self._control.put(request, give)
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
            while not self._ready and self._control.take() != b"ready":
                ended = self._process.wait()  # where bubblewrap itself is refused, its status says nothing
                if len(self._modes) == 1 or (ended != REFUSED and not modes.why_not(self.mode)):
                    raise BoxFailed(self._why())
                self._control.close()
                self._modes.pop(0)
                self._start()
            self._ready = True

    def _import(self, names: Sequence[str]) -> None:
        """Have the host import modules, and wait for it. Raises OSError when it is gone."""
        if names:
            self._control.put(json.dumps({"import": list(names)}).encode())
            if self._control.take() != b"imported":
                raise ConnectionError("the host ended")
            self._imported.update(names)

    def _why(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        return f"the process that starts sandboxes ended ({last[0] if last else f'status {self._process.returncode}'})"

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def borrow(self) -> None:
        """In a fork: the host is not ours to end."""
        self._borrowed = True

    def close(self) -> None:
        """End the host and everything below it."""
        if self._closed or self._borrowed:
            return
        self._closed = True
        self._control.close()
        if not self._ready:
            supervise.kill_tree(self._process.pid)  # still importing; bwrap alone would leave one that waits for it
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            supervise.kill_tree(self._process.pid)
            self._process.wait()
        self._errors.close()

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def note() -> int:
    """Memory to share with a rank, of a size that it cannot change; where there is none of that kind, a file without a
    name."""
    if not LINUX:
        with tempfile.TemporaryFile() as file:
            file.truncate(NUMBER_BYTES + NOTE_BYTES)
            return os.dup(file.fileno())
    fd = os.memfd_create("note", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, NUMBER_BYTES + NOTE_BYTES)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return fd
