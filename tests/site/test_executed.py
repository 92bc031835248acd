"""Chapters are run once, and what they showed is kept for as long as their code is the same."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

sys.path.append(str(Path(__file__).parent.parent.parent / "site"))
import executed


def chapter(folder: Path, code: str, prose: str = "# A chapter") -> Path:
    path = folder / "99-a-chapter.ipynb"
    nbformat.write(new_notebook(cells=[new_markdown_cell(prose), new_code_cell(code)]), path)
    return path


def shown(path: Path, kept: Path) -> list[str]:
    return [output["text"] for output in executed.with_outputs(path, kept).cells[1].outputs]


@pytest.mark.heavy
def test_a_chapter_is_run_once_and_prose_may_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept"
    path = chapter(tmp_path, "print('ran')")
    executed.run([path], kept)
    assert "99-a-chapter" in capsys.readouterr().out
    executed.run([chapter(tmp_path, "print('ran')", "# A better title")], kept)
    assert capsys.readouterr().out == ""
    assert shown(path, kept) == ["ran\n"]
    assert shown(chapter(tmp_path, "print('ran on')"), kept) == []


@pytest.mark.heavy
def test_a_chapter_that_fails_is_told_in_one_sentence(tmp_path: Path) -> None:
    path = chapter(tmp_path, "\nx = 0\n1 / x")
    with pytest.raises(executed.ChapterError) as failed:
        executed.run([path], tmp_path / "kept")
    assert str(failed.value) == (
        "99-a-chapter.ipynb does not run: ZeroDivisionError: division by zero (in the cell that begins with `x = 0`)"
    )
    assert [*(tmp_path / "kept").iterdir()] == []
