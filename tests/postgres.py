"""A PostgreSQL server for tests, in a folder of its own, where PostgreSQL is installed or a lab has set one up."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

_LAB = Path(__file__).parents[1] / "build/labs/optuna/lib"  # `make labs LABS=optuna`
_ELSEWHERE = ("/usr/lib/postgresql/*/bin/pg_ctl", f"{_LAB}/python3*/site-packages/*pgserver/pginstall/bin/pg_ctl")
PROGRAM = shutil.which("pg_ctl") or next((path for each in _ELSEWHERE for path in sorted(glob.glob(each))[-1:]), None)
USER = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name  # it does not run as root


def _user_is_known() -> bool:
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return False
    return True


NEEDED = [
    pytest.mark.skipif(PROGRAM is None, reason="PostgreSQL is not installed: no pg_ctl"),
    pytest.mark.skipif(not _user_is_known(), reason="PostgreSQL does not run as root, and there is no user postgres"),
]


class Server:
    """It is reached by a socket in its folder and by nothing else."""

    SCHEME = "postgresql"  # of its URL

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.url = f"{self.SCHEME}://rankup@/postgres?host={folder}"

    def run(self, *arguments: str) -> None:
        as_user = USER if os.geteuid() == 0 else None
        assert PROGRAM is not None
        command = [PROGRAM, "-D", str(self.data), "-s", "-w", *arguments]
        groups = None if as_user is None else list[str]()
        done = subprocess.run(
            command, user=as_user, extra_groups=groups, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True
        )
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        socket_only = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off"
        self.run("start", "-o", socket_only, "-l", str(self.folder / "log"))


S = TypeVar("S", bound=Server)


@contextlib.contextmanager
def serving(kind: type[S] = Server) -> Iterator[S]:  # type: ignore[assignment]
    folder = Path(tempfile.mkdtemp(prefix="rankup-pg-"))  # not below pytest's: another user must get at it
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        made = kind(folder)
        made.run("initdb", "-o", "--auth=trust --username=rankup --no-sync --locale=C --encoding=UTF8")
        made.start()
        try:
            yield made
        finally:
            made.run("stop", "-m", "immediate")
    finally:
        shutil.rmtree(folder)
