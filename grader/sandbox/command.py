"""A command in a box of its own: what to start instead of it, and where its files are then seen from outside."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.sandbox import bwrap, modes
from grader.sandbox.limits import BoxLimits

START_SECONDS = 30.0


@dataclass
class Wrapped:
    """What to start: `argv` with exactly the environment `env` and the descriptors `pass_fds`; then call `started`."""

    argv: list[str]
    env: dict[str, str]
    mode: modes.Mode
    pass_fds: tuple[int, ...] = ()
    _told: int = -1

    def started(self) -> str:
        """After the start: the folder below which the box's own files are seen, "" where they are where they say.

        Raises TimeoutError if the box does not come up.
        """
        for fd in self.pass_fds:
            os.close(fd)
        self.pass_fds = ()
        if self._told < 0:
            return ""
        said = b""
        deadline = time.monotonic() + START_SECONDS
        try:
            while True:  # to the end: bubblewrap dies of a pipe that nobody reads, and leaves a child behind
                if not select.select([self._told], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    raise TimeoutError("the box did not start")
                part = os.read(self._told, 4096)
                if not part:
                    break
                said += part
        finally:
            self.close()
        return f"/proc/{json.loads(said)['child-pid']}/root" if said else ""  # else it ended, and said why on stderr

    def close(self) -> None:
        """Let go of it; needed where it is never started."""
        for fd in (*self.pass_fds, self._told):
            if fd >= 0:
                os.close(fd)
        self.pass_fds, self._told = (), -1


def wrap(
    argv: Sequence[str],
    *,
    scratch: str,
    folder: str = "",
    mode: modes.Mode,
    limits: BoxLimits | None = None,
    more: Sequence[str] = (),
    files: Mapping[str, Path] | None = None,
    env: Mapping[str, str] | None = None,
) -> Wrapped:
    """How to start `argv` in a box.

    The folder `scratch`, which must exist and be empty, is the only one it may write in (with /tmp and /dev/shm in a
    full box): in a full box an empty one of its own is seen in its place. It starts there, or in `folder` below it.
    `files` are seen in it under their names, read-only; sockets among them can be connected to. `more` are parts of
    this package it needs besides the box's own, `env` what it sees of the environment besides the box's own.
    """
    limits = limits or BoxLimits()
    files = files or {}
    seen = {**bwrap.environment(), "HOME": scratch, "TMPDIR": scratch, **(env or {})}
    if mode == "full":
        return _bubblewrap(argv, scratch, folder, limits, more, files, seen)
    Path(scratch, folder).mkdir(parents=True, exist_ok=True)
    for name, path in files.items():
        inside = Path(scratch, name)
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.symlink_to(path)
    return Wrapped(_launch(argv, mode, limits, str(Path(scratch, folder))), seen, mode)


def _bubblewrap(
    argv: Sequence[str], scratch: str, folder: str, limits: BoxLimits, more: Sequence[str], files: Mapping[str, Path],
    env: dict[str, str],
) -> Wrapped:  # fmt: skip
    told, tell = os.pipe()
    start = str(Path(scratch, folder))
    size = ("--size", str(limits.disk_bytes), "--tmpfs")
    # the temporary folder comes first: our own files may be seen in it
    walls = [bwrap.program() or bwrap.PROGRAM, *bwrap.walls(), *size, bwrap.TEMPORARY, *bwrap.view(more)]
    walls += ["--proc", "/proc", *size, "/dev/shm", *size, scratch]
    walls += ["--dir", start]
    walls += [part for name, path in files.items() for part in ("--ro-bind", str(path), str(Path(scratch, name)))]
    walls += ["--remount-ro", "/dev", "--remount-ro", "/", "--info-fd", str(tell)]
    return Wrapped([*walls, "--", *_launch(argv, "full", limits, start)], env, "full", (tell,), told)


def _launch(argv: Sequence[str], mode: modes.Mode, limits: BoxLimits, folder: str) -> list[str]:
    wanted = {"mode": mode, "limits": limits.to_json(), "folder": folder}
    return [sys.executable, "-s", "-P", "-m", "grader.sandbox.launch", json.dumps(wanted), "--", *argv]
