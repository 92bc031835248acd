"""Environments of the labs' own, in build/labs/NAME: a Python that has what one lab needs and the course does not."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "labs"
_ASKED = "asked-for"  # in an environment: what was asked of pip, so that a changed table sets it up anew


class UnavailableError(Exception):
    """The environment cannot be set up here; the message is one sentence that says why."""


@dataclass(frozen=True)
class Environment:
    """What a lab's own Python has: `pip`, requirements; `settings`, variables that pip is started with.

    `alone`: requirements that are installed without what they depend on, because something large that is there plays
    that part. `course`: it sees the course's packages as well (torch, pandas), which pip then does not install once
    more. `seconds`: about how long the first set-up takes.
    """

    pip: tuple[str, ...]
    seconds: int
    alone: tuple[str, ...] = ()
    course: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    def asked(self) -> str:
        """All that the environment depends on, as a text to compare."""
        seen = [*self.pip, *self.alone, *(f"{name}={value}" for name, value in self.settings), sys.version.split()[0]]
        return "\n".join([*seen, *([sysconfig.get_path("purelib")] if self.course else []), ""])


def place(name: str) -> Path:
    return FOLDER / name


def python(name: str) -> Path:
    """The environment's Python, which may not be there yet."""
    return place(name) / "bin" / "python"


def log(name: str) -> Path:
    """Where pip's words go, and a lab's."""
    return FOLDER / f"{name}.log"


def is_there(name: str, environment: Environment) -> bool:
    """Whether it is set up, with what is asked for now."""
    asked = place(name) / _ASKED
    return python(name).exists() and asked.exists() and asked.read_text() == environment.asked()


def set_up(name: str, environment: Environment) -> None:
    """Set it up where it is not there. Raises UnavailableError.

    Another process that sets it up at the same time is waited for. It is made under another name, and renamed when it
    is whole: what has its own name can be used.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    new = FOLDER / f"{name}.new"
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_there(name, environment):
            return
        try:
            shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
            _make(name, environment, new)
            (new / _ASKED).write_text(environment.asked())
            shutil.rmtree(place(name), ignore_errors=True)
            new.rename(place(name))
        finally:
            shutil.rmtree(new, ignore_errors=True)


def _make(name: str, environment: Environment, new: Path) -> None:
    inside = new / "bin" / "python"
    pip = [str(inside), "-m", "pip", "install", "--quiet", "--retries", "1"]
    if environment.course:
        pip += ["--constraint", str(ROOT / "constraints.txt")]
    with log(name).open("w") as said:
        made = subprocess.run([sys.executable, "-m", "venv", new], stdout=said, stderr=said, check=False)
        if made.returncode:
            raise UnavailableError(f"Python's venv cannot make an environment here; {log(name)} has its words.")
        if environment.course:
            (_packages(new) / "course.pth").write_text(sysconfig.get_path("purelib") + "\n")
        settings = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **dict(environment.settings)}
        status = 0
        for wanted in filter(None, (environment.pip, environment.alone and ("--no-deps", *environment.alone))):
            status = status or subprocess.run([*pip, *wanted], stdout=said, stderr=said, env=settings).returncode
    if status:
        wrong = [line for line in log(name).read_text(errors="replace").splitlines() if line.startswith("ERROR:")]
        why = wrong[-1].removeprefix("ERROR:").strip().rstrip(".") if wrong else f"exit status {status}"
        raise UnavailableError(f"pip could not install {', '.join((*environment.pip, *environment.alone))}: {why}.")


def _packages(new: Path) -> Path:
    """Its own site-packages, which come before what a .pth file there names."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(new), "platbase": str(new)}))
