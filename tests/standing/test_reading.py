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
