"""What the labs on real servers share: processes that never outlive the lab, free ports, a table of what was seen."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PREFIX = "rankup-lab-"
OWNER = "owner"  # a file in the lab's folder, locked as long as the lab lives
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LIBC = ctypes.CDLL(None)  # opened here: nothing is loaded between fork and exec


class MissingError(Exception):
    """This machine cannot run the lab; the message is the one sentence that says why."""


@dataclass
class Seen:
    """What a lab saw: `rows` of (what was done or asked, what came of it), and `figures` for who wants to calculate.

    `versions`: of the programs that it ran. A table of more columns has a `head`, with a name for each.
    """

    rows: list[tuple[str, ...]] = field(default_factory=list)
    head: tuple[str, ...] = ()
    figures: dict[str, float | int | str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def row(self, what: str, *seen: str) -> None:
        self.rows.append((what, *seen))


@dataclass(frozen=True)
class Server:
    """A process that a lab started, and the signal that ends it."""

    process: subprocess.Popen[bytes]
    log: Path
    ending: signal.Signals

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        """Stops it with SIGSTOP; on return all of its threads stand (or it has ended): it answers nothing that comes
        later."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    def end(self) -> None:
        """Ends it, also one that is stopped or gone, and waits, also for what it started and left behind."""
        if self.process.poll() is not None:
            return
        self.process.send_signal(self.ending)
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # initdb's own postgres would go on writing into the folder; a zombie that nobody reaps stays in the group
        with contextlib.suppress(TimeoutError):
            until("all that it started has ended", 5, self._killed)

    def _killed(self) -> bool:
        """Kills what is left of its group; whether nothing was."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return True
        return False


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Holds back the signals that end a lab until the block is done.

    While a process is forked Python would print the exception that a handler raises, and go on (hooks of
    os.register_at_fork are called there).
    """
    came: list[int] = []
    before = {number: signal.signal(number, lambda got, _frame: came.append(got)) for number in ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for got in came:
        signal.raise_signal(got)


class Servers:
    """A private folder and the servers started in it; leaving the context ends them all and removes the folder.

    On Linux, what servers that are gone had started belongs to the lab (prctl(2), PR_SET_CHILD_SUBREAPER), and is ended
    with them. Should the lab itself be killed with SIGKILL, the kernel ends the servers (PR_SET_PDEATHSIG). Then the
    folder stays, and the next lab removes it.
    """

    def __enter__(self) -> Servers:
        sweep()
        if hasattr(_LIBC, "prctl"):
            _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.owner = _owned(self.folder)
        self.started: list[Server] = []
        for number in ENDINGS[1:]:
            signal.signal(number, lambda got, _frame: sys.exit(128 + got))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _t: TracebackType | None) -> None:
        with signals_wait():
            self._end(kind)

    def _end(self, kind: type[BaseException] | None) -> None:
        for server in reversed(self.started):
            server.end()
        if kind is not None and not issubclass(kind, (MissingError, SystemExit, KeyboardInterrupt)):
            for server in self.started:
                tail = server.log.read_text(errors="replace").splitlines()[-5:]
                print(f"-- the end of {server.log.name}:", *tail, sep="\n", file=sys.stderr)
        with contextlib.suppress(TimeoutError):  # a worker of Ray writes logs in the folder until its end
            until("all that the servers started has ended", 20, _nothing_runs)
        with contextlib.suppress(TimeoutError):
            until("the folder is gone", 10, lambda: _removed(self.folder))
        os.close(self.owner)

    def start(
        self, name: str, command: Sequence[str], ending: signal.Signals = signal.SIGKILL, user: str | None = None
    ) -> Server:
        """Starts `command` in the folder; what it says goes to NAME.log there."""
        lab = os.getpid()

        def tie() -> None:  # runs in the new process, after its user was changed, which would untie it
            if hasattr(_LIBC, "prctl"):
                _LIBC.prctl(PR_SET_PDEATHSIG, int(ending), 0, 0, 0)
                if os.getppid() != lab:  # the lab died before the tie was made
                    os._exit(1)

        log = self.folder / f"{name}.log"
        with log.open("ab") as output, signals_wait():
            process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, user=user,
                extra_groups=None if user is None else [], process_group=0, preexec_fn=tie,
            )  # fmt: skip
            server = Server(process, log, ending)
            self.started.append(server)
        return server


def sweep(folder: Path | None = None) -> None:
    """Removes the folders of labs that were killed with SIGKILL: nobody locks their file `owner` any more."""
    for path in sorted((folder or Path(tempfile.gettempdir())).glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError), (path / OWNER).open("rb") as owner:  # another user's: PermissionError
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _removed(path)


def _owned(folder: Path) -> int:
    """The descriptor of a lab's locked file. It has its name when it is locked, so no other lab takes the folder."""
    unnamed = folder / f"{OWNER}.new"
    owner = os.open(unnamed, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(owner, fcntl.LOCK_EX)
    unnamed.rename(folder / OWNER)
    return owner


def _removed(folder: Path) -> bool:
    """Removes a folder, as far as nobody writes into it meanwhile; whether it is gone."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def _nothing_runs() -> bool:
    """Kills what this process, or what it started, has started; whether nothing was left. It is known on Linux only."""
    below = {os.getpid()}
    parents = dict(_parents())
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    for pid in below - {os.getpid()}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return len(below) == 1


def _parents() -> Iterator[tuple[int, int]]:
    """Each process of this machine and its parent."""
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            told = Path(path).read_text(errors="replace")
            yield int(told.split()[0]), int(told.rpartition(")")[2].split()[1])


def program(name: str, missing: str, folders: str = "") -> str:
    """The path of a program: on the PATH, or else in the last of the folders that match. Raises MissingError."""
    found = shutil.which(name) or next(filter(shutil.which, sorted(glob.glob(f"{folders}/{name}"), reverse=True)), None)
    if found is None:
        raise MissingError(missing)
    return found


def version(*command: str) -> str:
    """The first version number that a program tells of itself."""
    told = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+", told.stdout + told.stderr)
    return found[0] if found else "unknown"


def free_ports(number: int) -> list[int]:
    """So many ports of the loopback interface that nobody listens at now."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def lean(folder: Path) -> None:
    """Python processes from here on, this one too, start without the grammar of URLs that `import ray` would read.

    Ray imports jsonschema, which takes rfc3987_syntax where it is installed and does without where it is not. It builds
    a parser, which takes twice as long as all else that Ray imports, in each of Ray's processes.
    """
    place = folder / "lean"
    place.mkdir()
    (place / "rfc3987_syntax.py").write_text("raise ImportError\n")
    sys.path.insert(0, str(place))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])


def until(what: str, seconds: float, condition: Callable[[], bool]) -> float:
    """Asks again and again until `condition` holds; returns the seconds that took. Raises TimeoutError."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() > begun + seconds:
            raise TimeoutError(f"after {seconds:g} s still not so: {what}")
        time.sleep(0.01)
    return time.monotonic() - begun


def main(lab: Callable[[Servers, Seen], None], arguments: Sequence[str]) -> int:
    """Runs a lab: a table for people, with `--json` one object {"head": [], "rows": [[what, seen], ...],
    "figures": {...}, "versions": {...}}.

    Returns 0; 2 with one sentence on stderr where the machine cannot run it.
    """
    if set(arguments) - {"--json"}:
        print(f"there is one option, --json, and no {' '.join(arguments)}", file=sys.stderr)
        return 2
    if "--json" in arguments and hasattr(_LIBC, "prctl"):  # a program has started it, maybe a notebook's kernel
        _LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    seen = Seen()
    try:
        with Servers() as servers:
            lab(servers, seen)
    except MissingError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if "--json" in arguments:
        print(json.dumps({"head": seen.head, "rows": seen.rows, "figures": seen.figures, "versions": seen.versions}))
        return 0
    shown = [seen.head, *seen.rows] if seen.head else seen.rows
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0
