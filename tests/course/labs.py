"""What the tests of the labs on real servers share."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tools import environments
from tools import labs as table

FOLDER = Path(__file__).parent.parent.parent / "course" / "labs"
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
# All labs are ended by what servers.py does: one is tried with each signal, each other one with SIGKILL and one more.
BY_INTERRUPT, BY_TERMINATION = (signal.SIGINT, signal.SIGKILL), (signal.SIGTERM, signal.SIGKILL)


CHEAP = 60  # seconds: an environment that is set up in less is set up for a test


def python_or_skip(name: str) -> Path:
    """The Python of a lab's own environment, which is set up if that is cheap; skips the test where it is not there."""
    row = next(each for each in table.LABS if each.name == name)
    if row.own is not None and not row.is_set_up:
        if row.own.seconds > CHEAP:
            pytest.skip(f"the environment is not set up: make labs LABS={name}")
        try:
            environments.set_up(name, row.own)
        except environments.UnavailableError as error:
            pytest.skip(str(error))
    return row.python


def run_or_skip(lab: Path, *arguments: str, seconds: float = 120, python: Path = Path(sys.executable)) -> str:
    """What a lab printed; skips the test, with the lab's own sentence, where its engine is missing."""
    command = [python, lab, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=seconds)
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout


def without_programs(lab: Path, empty: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a lab says where no program at all is on the PATH."""
    command, environment = [sys.executable, lab, *arguments], {**os.environ, "PATH": str(empty)}
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=environment)


def kill_once_started(
    lab: Path, number: signal.Signals, server: str, *arguments: str, python: Path = Path(sys.executable)
) -> None:
    """Ends the lab with a signal while its servers run: they must end too, and what they started."""
    process = subprocess.Popen([python, lab, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stderr is not None
        servers: list[psutil.Process] = []
        folder: Path | None = None
        deadline = time.monotonic() + 120
        while folder is None:
            if process.poll() == 2:
                pytest.skip(process.stderr.read().strip())
            assert process.poll() is None
            assert time.monotonic() < deadline, f"no {server} was started"
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                servers = psutil.Process(process.pid).children(recursive=True)
                folders = (_top(child) for child in servers if child.name().startswith(server))
                folder = next((each for each in folders if each is not None), None)
        process.send_signal(number)
        process.stderr.read()
    assert process.returncode != 0, f"the lab went on after {number.name} as if nothing had come"
    _, alive = psutil.wait_procs(servers, timeout=60)
    assert not alive
    if number == signal.SIGKILL:
        shutil.rmtree(folder)  # nobody was left to do it
    assert not folder.exists()


def _top(server: psutil.Process) -> Path | None:
    """The lab's private folder: the server runs in it, or is told of it on its command line; None between its fork
    and its first steps."""
    told = re.findall(r"/[^\s=:,'\"]*/rankup-[^/\s'\"]+", " ".join(server.cmdline()))
    around = [Path(server.cwd()), *Path(server.cwd()).parents, *map(Path, told)]
    return next((path for path in around if path.name.startswith("rankup-")), None)
