"""Cells that were run in JupyterLab are remembered, in a real kernel; others are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

from grader import progress, reading

CELLS = ["import grader", "1 + 1", "  \n", "1 / 0", "1 + 1  "]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RANKUP_DATA", str(tmp_path))
    return


def run(path: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if path is None:
        monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    else:
        monkeypatch.setenv("JPY_SESSION_NAME", path)
    manager, client = start_new_kernel(startup_timeout=60)
    try:
        for source in CELLS:
            client.execute_interactive(source, timeout=60, output_hook=lambda message: None)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.usefixtures("kept")
def test_the_cells_of_a_chapter_that_ran_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    run("course/06-collectives.ipynb", monkeypatch)
    found = progress.read()
    assert set(found) == {"06"}
    assert found["06"].digests == {reading.digest("import grader"), reading.digest("1 + 1")}


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("path", ["course/mine.ipynb", None])
def test_other_notebooks_are_nobodys_business(path: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    run(path, monkeypatch)
    assert progress.read() == {}


@pytest.mark.usefixtures("kept")
def test_what_was_read_of_the_interview_follows_it_to_its_new_number(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = progress._STEPS
    monkeypatch.setattr(progress, "_STEPS", ())
    for chapter, cell in (("15", "a"), ("15", "b"), ("20", "b"), ("14", "c")):
        progress.record_cell(chapter, cell)  # as the rankup before wrote it, when the interview was chapter 15
    progress.record_prediction("predict-open", "15", True)
    monkeypatch.setattr(progress, "_STEPS", steps)
    found = progress.read()
    assert {chapter: set(read.digests) for chapter, read in found.items()} == {"14": {"c"}, "20": {"a", "b"}}
    assert progress.predictions() == {"20": (1, 1)}


@pytest.mark.usefixtures("kept")
def test_a_new_chapter_15_keeps_what_was_read_of_it() -> None:
    progress.record_cell("20", "a")
    progress.record_cell("15", "b")
    progress.record_prediction("predict-new", "15", False)
    found = progress.read()
    assert {chapter: set(read.digests) for chapter, read in found.items()} == {"15": {"b"}, "20": {"a"}}
    assert progress.predictions() == {"15": (1, 0)}


@pytest.mark.parametrize(
    ("path", "chapter"),
    [("06-collectives.ipynb", "06"), ("/a/course/00-start-here.ipynb", "00"), ("06.ipynb", None),
     ("work/06-collectives/ring_all_reduce.ipynb", None), ("", None)],
)  # fmt: skip
def test_which_chapter_a_notebook_is(path: str, chapter: str | None) -> None:
    assert reading.chapter(path) == chapter


def test_no_chapter_has_the_same_cell_twice() -> None:
    course = Path(__file__).parent.parent.parent / "course"
    for path in course.glob("[0-9][0-9]-*.ipynb"):
        assert len(set(reading.cells(path))) == len(reading.cells(path)), f"{path.name} has the same cell twice"
