"""A run of `rankup history run` that is sent a signal in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from grader.nodes.databases.stage import Stage

play, told = Stage.play, []

def and_tell(self, scene):
    play(self, scene)
    if len(self.played) >= 40 and not told:
        told.append(True)
        with open(ready, "w") as there:
            there.write("x")

Stage.play = and_tell
ready = sys.argv.pop(1)

from grader.cli import main
main()
"""


def status_after(how: signal.Signals, folder: Path, *words: str) -> int:
    """The exit status of a run with these options that gets a signal once 40 transactions are over.

    `folder` is for what the run and this function put into temporary folders.
    """
    ready = folder / "ready"
    os.mkfifo(ready)
    command = [sys.executable, "-c", PROGRAM, str(ready), "history", "run", "--transactions=20000", *words]
    process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(folder)}, stdout=subprocess.DEVNULL)
    try:
        with ready.open("rb") as told:  # blocks until then
            assert told.read(1)
        process.send_signal(how)
        return process.wait(timeout=100)
    finally:
        process.kill()
        process.wait()
        ready.unlink()
