"""What the benchmarks share: classes that hand in, commands that are run and watched, goals and results."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from grader.sandbox import modes, supervise, usage

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
BUILD = ROOT / "build" / "bench"
ASSIGNMENT, NOTEBOOK = "06-collectives", "ring_all_reduce"
MAX_POINTS = 20
_RELEASED = ROOT / "exercises" / ASSIGNMENT / f"{NOTEBOOK}.ipynb"
_DEMO, _MUTANTS = ROOT / "demo" / "submissions", ROOT / "tests" / "mutants" / NOTEBOOK
_SAMPLED_EVERY = 0.1  # seconds between two looks at the memory of a tree of processes

RIGHT = (_DEMO / "ada.py", _DEMO / "bela.py", *sorted((ROOT / "tests" / "alternatives" / NOTEBOOK).glob("*.py")))
WRONG = tuple(_DEMO / f"{name}.py" for name in ("chen", "emma", "dmitri", "farid", "grace", "hana", "judit"))
ENDLESS = (_DEMO / "ivan.py", _MUTANTS / "never_ending_loop.py", _MUTANTS / "polls_is_completed.py")


@dataclass(frozen=True)
class HandedIn:
    """What one student handed in; `sort` is right, wrong or endless."""

    student: str
    name: str
    sort: str
    source: str


def mixture(right: int, wrong: int, endless: int, seed: int = 1) -> list[HandedIn]:
    """A class in no order: each source as often as the next, and no two texts the same."""
    paths = [("right", path) for path in islice(cycle(RIGHT), right)]
    paths += [("wrong", path) for path in islice(cycle(WRONG), wrong)]
    paths += [("endless", path) for path in islice(cycle(ENDLESS), endless)]
    random.Random(seed).shuffle(paths)
    made = []
    for number, (sort, path) in enumerate(paths, 1):
        student = f"s{number:04}"
        made.append(HandedIn(student, path.stem, sort, f"{path.read_text()}\n# {student}\n"))
    return made


def environment(**more: str | Path) -> dict[str, str]:
    """For commands: the interpreter's own programs come first (nbgrader calls one by name)."""
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)])
    return {**os.environ, "PATH": path, "COLUMNS": "200", "NO_COLOR": "1", **{k: str(v) for k, v in more.items()}}


def make_class(folder: Path, students: Sequence[HandedIn]) -> None:
    """A class with a gradebook of its own that knows the assignment, in which all have handed in."""
    release = f"--CourseDirectory.release_directory={folder / 'release'}"
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", ASSIGNMENT, "--force", release]
    made = run(command, environment(RANKUP_CLASS=folder))
    if made.status:
        sys.exit(f"nbgrader generate_assignment: status {made.status}\n{made.text}")
    for student in students:
        hand_in(folder / "submitted" / student.student / ASSIGNMENT / _RELEASED.name, _RELEASED, student.source)


def hand_in(path: Path, released: Path, source: str) -> None:
    """Write a released notebook with this text in its solution cell."""
    notebook = json.loads(released.read_text())
    cell = next(cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("solution"))
    cell["source"] = source
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(notebook))


def grade_command(*options: str) -> list[str]:
    """`rankup class grade`, also on a machine that cannot keep submissions apart from itself: these are our own."""
    trust = [] if modes.mode() == "full" else ["--trust-submissions"]
    return [str(BIN / "rankup"), "class", "grade", ASSIGNMENT, *trust, *options]


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """What the class's journal holds, by student."""
    found = {}
    for path in folder.glob(f"journal/{ASSIGNMENT}/*/{NOTEBOOK}.json"):
        record = json.loads(path.read_bytes())
        found[str(record["student"])] = record
    return found


@dataclass(frozen=True)
class Ran:
    """A command that has ended: its status, seconds, the lines that it wrote (each with the seconds until then), and
    the most memory that all of it took at once (proportional set size, in bytes; 0 where nobody looked)."""

    status: int
    seconds: float
    lines: tuple[tuple[float, str], ...]
    peak_bytes: int = 0

    @property
    def text(self) -> str:
        return "".join(line for _, line in self.lines)


def run(
    command: Sequence[str | Path],
    environ: Mapping[str, str],
    cwd: Path = ROOT,
    memory: bool = False,
    show: Callable[[str], None] = lambda line: None,
) -> Ran:
    """Run a command to its end; all of it is killed where that does not come because of an exception here.

    `memory` has its memory looked at ten times a second, which costs it some of its time.
    """
    began = time.monotonic()
    process = subprocess.Popen(
        [str(each) for each in command],
        cwd=cwd,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C is for us to handle
    )
    assert process.stdout is not None
    ended, peaks = threading.Event(), queue.SimpleQueue[int]()
    watching = threading.Thread(target=_watch, args=(process.pid, ended, peaks), daemon=True)
    if memory:
        watching.start()
    lines = []
    try:
        for line in process.stdout:
            lines.append((time.monotonic() - began, line))
            show(line)
        status = process.wait()
        seconds = time.monotonic() - began
    except BaseException:
        supervise.kill_tree(process.pid)
        process.wait()
        raise
    finally:
        ended.set()
        process.stdout.close()
    return Ran(status, seconds, tuple(lines), peaks.get() if memory else 0)


def _watch(pid: int, ended: threading.Event, peaks: queue.SimpleQueue[int]) -> None:
    peak = 0
    while not ended.wait(_SAMPLED_EVERY):
        with usage.machine() as folder:
            sizes = [usage.proportional_bytes(folder, each.pid) for each in usage.tree(folder, pid)]
        peak = max(peak, sum(size[0] for size in sizes if size))
    peaks.put(peak)


@contextlib.contextmanager
def alone() -> Iterator[Path]:
    """A folder for everything, and nothing left at the end: no file of it, no process that was started, however it
    ends. Orphans of what is started come to this process. SIGTERM ends like Ctrl-C."""
    supervise.become_subreaper()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="rankup-bench-", ignore_cleanup_errors=True) as folder:
            try:
                yield Path(folder)
            finally:
                end_all()
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        sys.exit(130)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def below() -> list[int]:
    """The processes below this one; those that have ended are reaped, unless somebody waits for them."""
    for pid in supervise.tree(os.getpid())[1:]:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    there: list[int] = supervise.tree(os.getpid())[1:]
    return there


def end_all() -> None:
    """Kill everything below this process."""
    while there := below():
        for pid in there:
            supervise.kill_tree(pid)


def goal(text: str, value: float, limit: float, unit: str, more: bool = False) -> dict[str, Any]:
    """Print what was to be reached, and whether it was; the same as data. With `more`, more is better."""
    met = value >= limit if more else value <= limit
    print(f"{'met' if met else 'NOT met':8} {text}: {value:.2f}{unit}, goal {'>=' if more else '<='} {limit:g}{unit}")
    return {"goal": text, "value": value, "limit": limit, "met": met}


def save(name: str, data: Mapping[str, Any]) -> None:
    """Write the results as JSON."""
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / f"{name}.json").write_text(json.dumps(data, indent=1))
