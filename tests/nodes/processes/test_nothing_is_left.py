"""However a run ends, by itself, by Ctrl-C or by SIGKILL, no process of it is left: not even a daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest
from cluster_runs import PROGRAMS, environment, marked

HARNESS = "from grader.cli import main; main()"


def started(tmp_path: Path, mark: str, how: str) -> subprocess.Popen[bytes]:
    """`rankup nodes run` on a program, once that has answered its first request."""
    ready, temporary = tmp_path / "ready", tmp_path / "tmp"
    temporary.mkdir()
    os.mkfifo(ready)
    words = [sys.executable, "-c", HARNESS, "nodes", "run", "--workload=echo", "--nodes=2", "--time-limit=60"]
    node = [sys.executable, "-S", str(PROGRAMS / "misbehave.py"), how, str(ready)]
    process = subprocess.Popen(
        [*words, "--", *node], env={**environment(mark), "TMPDIR": str(temporary)}, start_new_session=True
    )
    with ready.open("rb") as told:  # blocks until a node has answered
        assert told.read(1)
    return process


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_nothing_outlives_the_harness(tmp_path: Path, how: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    process = started(tmp_path, mark, "daemon")
    try:
        below = [found for found in marked(mark) if found.pid != process.pid]
        assert len(below) == 2 * 4, "of each node: the nanny, the node, its child and its daemon"
        process.send_signal(how)
        status = process.wait(timeout=30)
    finally:
        process.kill()
    assert status == (-signal.SIGKILL if how == signal.SIGKILL else 130)
    assert psutil.wait_procs(below, timeout=30)[1] == []
    assert marked(mark) == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_run_that_ends_by_itself_leaves_nothing(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    words = [
        sys.executable,
        "-c",
        HARNESS,
        "nodes",
        "run",
        "--workload=echo",
        "--nodes=2",
        "--time-limit=0.3",
        "--json",
    ]
    node = [sys.executable, "-S", str(PROGRAMS / "misbehave.py"), "daemon"]
    done = subprocess.run([*words, "--", *node], env=environment(mark), capture_output=True, timeout=60)
    assert done.returncode == 0
    assert json.loads(done.stdout)["valid"] is True
    assert marked(mark) == []
