"""Whether this machine can keep submissions apart from itself, and what would make it so.

"full": bubblewrap, namespaces, and in them all walls that the kernel has; "none": limits only, against accidents.
RANKUP_SANDBOX=none asks for no more than that, for tests; RANKUP_SANDBOX_LEAST=full for no less, for a class.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import Literal, get_args

from grader.sandbox import LINUX, bwrap, userns

Mode = Literal["full", "none"]
MODES: tuple[Mode, ...] = get_args(Mode)
MOST, LEAST = "RANKUP_SANDBOX", "RANKUP_SANDBOX_LEAST"

NOT_ISOLATED = {"full": "", "none": "submissions can read and write everything that you can"}


def wanted() -> tuple[Mode, ...]:
    """The modes that may be used, best first."""
    if os.environ.get(MOST) == "none":
        return ("none",)
    if os.environ.get(LEAST) == "full":
        return ("full",)
    return MODES if LINUX else ("none",)


def require_full() -> None:
    """From now on, here and in the processes that we start: no box at all rather than one that is not shut."""
    os.environ[LEAST] = "full"


def command(mode: Mode, *arguments: str) -> list[str]:
    """The command line of the warm process, with `arguments`, as it is started in this mode."""
    python = [sys.executable, "-s", "-P", "-m", "grader.sandbox.host", *arguments]
    if mode != "full":
        return python
    walls = [bwrap.program() or bwrap.PROGRAM, *bwrap.walls(), *bwrap.view()]
    return [*walls, *bwrap.scratch(), "--remount-ro", "/dev", "--remount-ro", "/", "--", *python]


@functools.cache
def why_not(mode: Mode) -> str:
    """Why boxes cannot be made in this mode on this machine; "" if they can. Tries it."""
    if mode == "none":
        return ""
    if not LINUX:
        return "only Linux can shut a box"
    if bwrap.program() is None:
        return "bubblewrap is not installed"
    tried = subprocess.run(
        command(mode, "--probe", mode),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=bwrap.environment(),
    )
    if tried.returncode == 0:
        return ""
    said = tried.stderr.strip().splitlines()
    return said[-1] if said else "the kernel refuses"


def mode() -> Mode:
    """The best mode that works here."""
    return next((each for each in wanted() if not why_not(each)), "none")


def advice(mode: Mode) -> str:
    """How to get a better mode; "" for the best."""
    if mode == "full":
        return ""
    if not LINUX:
        return "only Linux can isolate submissions; to grade strangers' code, use a Linux machine"
    if "full" not in wanted():
        return "isolation is off because RANKUP_SANDBOX=none is set; unset it"
    if bwrap.program() is None:
        return "install bubblewrap with your system's package manager (apt install bubblewrap) to grade strangers' code"
    needs = "grading strangers' code needs user namespaces"
    if rule := userns.forbidding():
        return f"{needs}, which are forbidden by {rule.name}; to allow them: {rule.command}"
    return f"{needs}, and they do not work here: {why_not('full')}"
