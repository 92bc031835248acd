"""A class's gradebook on a PostgreSQL server of its own, where one is installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import postgres
import pytest
from batch_class import RIGHT, WRONG, Class, generate

from grader.submission import BadRequest

pytest.importorskip("psycopg2", reason="psycopg2 is not installed: pip install psycopg2-binary")
pytestmark = postgres.NEEDED


class Server(postgres.Server):
    SCHEME = "postgresql+psycopg2"  # as SQLAlchemy has it


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres.serving(Server) as made:
        yield made


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
