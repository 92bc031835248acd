"""A class's gradebook on a PostgreSQL server of its own, where one is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from batch_class import RIGHT, WRONG, Class, generate

from grader.submission import BadRequest

pytest.importorskip("psycopg2", reason="psycopg2 is not installed: pip install psycopg2-binary")
PROGRAM = shutil.which("pg_ctl")
USER = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


def _user_is_known() -> bool:
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return False
    return True


pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="PostgreSQL is not installed: no pg_ctl on the PATH"),
    pytest.mark.skipif(not _user_is_known(), reason="PostgreSQL does not run as root, and there is no user postgres"),
]


class Server:
    """PostgreSQL in a folder of its own, reached by a socket in it and by nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.url = f"postgresql+psycopg2://rankup@/postgres?host={folder}"

    def run(self, *arguments: str) -> None:
        as_user = USER if os.geteuid() == 0 else None
        assert PROGRAM is not None
        command = [PROGRAM, "-D", str(self.data), "-s", "-w", *arguments]
        done = subprocess.run(command, user=as_user, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        socket_only = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off"
        self.run("start", "-o", socket_only, "-l", str(self.folder / "log"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="rankup-pg-"))  # not below pytest's: another user must get at it
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        made = Server(folder)
        made.run("initdb", "-o", "--auth=trust --username=rankup --no-sync --locale=C --encoding=UTF8")
        made.start()
        try:
            yield made
        finally:
            made.run("stop", "-m", "immediate")
    finally:
        shutil.rmtree(folder)


@pytest.mark.heavy
def test_a_class_is_graded_into_postgresql(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(tmp_path, server.url)
    room = Class(tmp_path, server.url)
    room.hand_in("ada", RIGHT).with_name("timestamp.txt").write_text("2026-02-01 12:00:00 UTC")
    room.hand_in("bo", WRONG)
    room.hand_in("name of a student " * 10, RIGHT)
    assert room.grade() == (1, ["ada", "bo", "name of a student " * 10])
    assert "the gradebook cannot be used (value too long for type character varying(128))" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "submitted" / ("name of a student " * 10))
    assert (room.score("ada"), room.score("bo")) == ((20, False), (0, False))
    assert not (tmp_path / "gradebook.db").exists()
    assert room.grade() == (0, [])

    monkeypatch.setenv("RANKUP_DB", server.url)
    assert Class(tmp_path).grade() == (0, []), "the environment names the same gradebook"

    server.run("stop", "-m", "immediate")
    with pytest.raises(BadRequest) as raised:
        room.grade()
    assert str(raised.value).startswith("the gradebook cannot be opened: ")
    assert "\n" not in str(raised.value)
    server.start()
    assert room.grade() == (0, [])


@pytest.mark.heavy
def test_a_password_is_never_shown(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = server.url.replace("rankup@", "rankup:secret@")
    generate(tmp_path, url)
    room = Class(tmp_path, url)
    room.hand_in("ada", RIGHT)
    assert room.grade() == (0, ["ada"])
    assert "secret" not in capsys.readouterr().out
    assert not [path for path in tmp_path.rglob("*.json") if b"secret" in path.read_bytes()]
