"""What a streaming query reads and writes, as its supervisor sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.jobs.sparks.folders import Folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def checkpoint(folders: Folders, *batches: int, below: str = ".") -> Path:
    """A checkpoint in which these batches are committed. Returns its folder of commits."""
    root = folders.checkpoint / below
    for name in ("offsets", "commits", "state"):
        (root / name).mkdir(parents=True)
        for number in batches:
            (root / name / str(number)).write_text("v1")
            (root / name / f".{number}.crc").write_text("sum")
    return root / "commits"


@pytest.mark.parametrize("below", [".", "counts"])
def test_the_newest_commit_is_taken_back_with_its_checksum(folders: Folders, below: str) -> None:
    commits = checkpoint(folders, 8, 9, 10, below=below)
    assert folders.uncommit() == 1
    assert sorted(path.name for path in commits.iterdir()) == [".8.crc", ".9.crc", "8", "9"]


def test_without_a_checkpoint_nothing_is_taken_back(folders: Folders) -> None:
    assert folders.uncommit() == 0


def test_batches_are_those_whose_offsets_are_written(folders: Folders) -> None:
    checkpoint(folders, 0, 1)
    assert folders.open(folders.logs("offsets")) == 2


def test_what_spark_keeps_in_a_checkpoint_is_no_output(folders: Folders) -> None:
    before = folders.written()
    checkpoint(folders, 0)
    (folders.checkpoint / "metadata").write_text("id")
    assert folders.written() == before
    (folders.checkpoint / "done-0").write_text("")
    (folders.output / "part.parquet").write_text("rows")
    assert len(folders.written() - before) == 2


def test_a_file_that_is_put_later_is_younger(folders: Folders) -> None:
    for name in ("b", "a"):
        folders.add(name, "{}")
    ages = [(folders.input / name).stat().st_mtime for name in ("b", "a")]
    assert ages[0] < ages[1]
