"""How well this machine can keep submissions apart from itself: the mode, and what would make it better.

"full": bubblewrap and namespaces; "partial": Landlock, seccomp and limits only, so the network and the list of
processes are shared; "none": limits only. RANKUP_SANDBOX names a mode that is not to be exceeded, for tests;
RANKUP_SANDBOX_LEAST one that is not to be fallen short of, for a class.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import Literal, get_args

from grader.sandbox import bwrap

Mode = Literal["full", "partial", "none"]
MODES: tuple[Mode, ...] = get_args(Mode)
MOST, LEAST = "RANKUP_SANDBOX", "RANKUP_SANDBOX_LEAST"

NOT_ISOLATED = {
    "full": "",
    "partial": "submissions can read and write no file that is not theirs, but they share this machine's network and "
    "list of processes: they can reach other machines, and services on loopback",
    "none": "submissions can read and write whatever you can",
}


def wanted() -> tuple[Mode, ...]:
    """The modes that may be used, best first."""
    most, least = os.environ.get(MOST, ""), os.environ.get(LEAST, "")
    first = MODES.index(most) if most in MODES else 0
    last = MODES.index(least) if least in MODES else len(MODES) - 1
    return MODES[first : max(first, last) + 1]


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
    if mode == "full" and bwrap.program() is None:
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
    return next((each for each in wanted() if each == "none" or not why_not(each)), "none")


def advice(mode: Mode) -> str:
    """How to get a better mode; "" for the best."""
    if mode == "full":
        return ""
    if "full" not in wanted():
        return "RANKUP_SANDBOX asks for no more than that"
    why = why_not("full")
    if bwrap.program() is None:
        return "install bubblewrap with your system's package manager (apt install bubblewrap) to grade strangers' code"
    return f"full isolation needs user namespaces ({why}): see user.max_user_namespaces and your container's settings"
