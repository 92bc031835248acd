"""What labs leave behind: nothing; and where one was killed with SIGKILL, nothing once the next one has begun."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import labs
import pytest

LEAVES_ONE_BEHIND = """
import os, subprocess, sys
from servers import Servers, main

def lab(servers, seen):
    keeps = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    starts = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=-1, stderr=-3); "
    starts += "p.stdout.readline(); print(p.pid)"
    stray = subprocess.run([sys.executable, "-c", starts, keeps], capture_output=True, text=True, check=True).stdout
    print(servers.folder, stray.strip(), flush=True)
    sys.stdin.readline()

sys.exit(main(lab, []))
"""


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(labs.FOLDER))
    return importlib.import_module("servers")


def begun(temporary: Path) -> tuple[subprocess.Popen[str], Path, int]:
    """A lab that has started a process which started another one, and is gone: the folder, and what was left behind."""
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(labs.FOLDER)}
    process = subprocess.Popen(
        [sys.executable, "-c", LEAVES_ONE_BEHIND], stdin=-1, stdout=-1, text=True, env=environment
    )
    assert process.stdout is not None
    folder, stray = process.stdout.readline().split()
    return process, Path(folder), int(stray)


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=str)
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere processes whose parent is gone belong to nobody")
def test_what_a_server_left_behind_ends_with_the_lab_and_the_folder_is_gone(
    tmp_path: Path, number: signal.Signals | None
) -> None:
    process, folder, stray = begun(tmp_path)
    if number is not None:
        process.send_signal(number)
    process.communicate("\n")
    assert process.returncode == (0 if number is None else 128 + number)
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(stray, 0)


def test_the_next_lab_removes_what_a_killed_one_left_and_nothing_else(tmp_path: Path, servers: Any) -> None:
    killed, left, stray = begun(tmp_path)
    lives, used, another = begun(tmp_path)
    strange = tmp_path / "rankup-lab-of-somebody"
    strange.mkdir()
    killed.kill()
    killed.communicate()
    assert left.exists()
    servers.sweep(tmp_path)
    assert (left.exists(), used.exists(), strange.exists()) == (False, True, True)
    lives.communicate("\n")
    for each in (stray, another):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
