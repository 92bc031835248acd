"""Which Java runs Spark, and the archive that it starts from: made once, or given up once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from grader.jobs.sparks import java

RELEASES = [
    ('JAVA_VERSION="25.0.2"', 25),
    ('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"', 17),
    ('JAVA_VERSION="1.8.0_402"', 8),
]


@pytest.mark.parametrize(("release", "version"), RELEASES)
def test_a_javas_version_is_read_from_its_release_file(tmp_path: Path, release: str, version: int) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "release").write_text(release + "\n")
    assert java._version(str(tmp_path / "bin" / "java")) == version


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert java._version(str(tmp_path / "bin" / "java")) == 0


@pytest.mark.parametrize("slow", [False, True])
def test_an_archive_that_cannot_be_made_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], slow: bool
) -> None:
    tried = []

    def run(line: list[str], **_: object) -> None:
        tried.append(line)
        if slow:
            raise subprocess.TimeoutExpired(line, 1)

    monkeypatch.setattr(java, "archive", lambda: tmp_path / "share" / "spark.aot")
    monkeypatch.setattr(java.subprocess, "run", run)
    assert [java.prepared(), java.prepared()] == [[], []]
    assert len(tried) == 1
    assert capsys.readouterr().err.count("Preparing Java") == 1


def test_an_archive_that_was_made_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "archive", lambda: tmp_path / "share" / "spark.aot")
    monkeypatch.setattr(java.subprocess, "run", lambda line, **_: Path(line[3]).write_text("classes"))
    assert java.prepared() == [f"-XX:AOTCache={tmp_path / 'share' / 'spark.aot'}"]
    assert java.prepared() == [f"-XX:AOTCache={tmp_path / 'share' / 'spark.aot'}"]
