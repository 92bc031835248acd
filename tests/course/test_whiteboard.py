"""Chapter 20 has every question, as the interview's files say it, and its generated cells are in step with them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
import yaml

from tools import whiteboard

COURSE = Path(__file__).parent.parent.parent / "course"
CHAPTER = next(COURSE.glob("20-*.ipynb"))
QUESTIONS = {q["id"]: q for q in yaml.safe_load((COURSE / "questions.yaml").read_text())["questions"]}


def test_the_chapter_is_in_step_with_the_interview() -> None:
    cells = nbformat.read(CHAPTER, as_version=4).cells
    fresh = whiteboard.renewed(nbformat.read(CHAPTER, as_version=4), COURSE)
    said = "run: python -m tools.whiteboard"
    assert [(c.id, c.source) for c in cells] == [(c.id, c.source) for c in fresh], said


def test_every_question_has_a_cell_with_its_answer() -> None:
    cells = {cell.id: cell.source for cell in nbformat.read(CHAPTER, as_version=4).cells}
    assert {name for name in cells if name.startswith("q-")} == set(QUESTIONS)
    for name, question in QUESTIONS.items():
        assert cells[name].startswith(f"#### {question['q']}\n")
        assert cells[name].count("<details>") == cells[name].count("</details>") == 3


def test_what_is_not_generated_is_left_where_it_is() -> None:
    notebook = nbformat.read(CHAPTER, as_version=4)
    generated = [cell for cell in notebook.cells if whiteboard.TAG in cell.metadata.get("tags", [])]
    notebook.cells = [notebook.cells[0], generated[0], notebook.cells[1]]
    cells = whiteboard.renewed(notebook, COURSE)
    assert [cells[0], cells[-1]] == [notebook.cells[0], notebook.cells[2]]
    assert len(cells) == len(generated) + 2


def test_an_entry_without_a_question_is_an_error(tmp_path: Path) -> None:
    for name in ("questions.yaml", "syllabus.yaml", "interview"):
        (tmp_path / name).symlink_to(COURSE / name)
    assert len(list(whiteboard.texts(tmp_path))) > len(QUESTIONS)
    (tmp_path / "questions.yaml").unlink()
    few = [question for question in QUESTIONS.values() if question["id"] != "q-cap"]
    (tmp_path / "questions.yaml").write_text(yaml.safe_dump({"questions": few}))
    with pytest.raises(KeyError, match="q-cap"):
        list(whiteboard.texts(tmp_path))


def test_links_of_the_chapter_lead_somewhere() -> None:
    for cell in nbformat.read(CHAPTER, as_version=4).cells:
        if cell.cell_type == "markdown":
            for link in re.findall(r"\]\(([^)#]+)\)", re.sub(r"```.*?```|`[^`]*`", "", cell.source, flags=re.DOTALL)):
                assert link.startswith("http") or (COURSE / link).exists(), link
