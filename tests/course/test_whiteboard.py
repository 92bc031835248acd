"""Chapter 15 has every question, as the interview's files say it, and its generated cells are in step with them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest
import yaml

from grader.quiz.interview import content
from tools import whiteboard

COURSE = Path(__file__).parent.parent.parent / "course"
CHAPTER = next(COURSE.glob("15-*.ipynb"))
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


def test_the_files_are_cut_as_the_strict_parser_reads_them() -> None:
    cut = {entry.id: entry for _, entries in whiteboard.areas(COURSE) for entry in entries}
    strict = content.load_folder(COURSE / "interview")
    assert [entry.question for entry in strict] == list(cut)
    for entry in strict:
        parts = cut[entry.question].parts
        assert parts["Answer"] == entry.answer.strip()
        assert [line.removeprefix("- ") for line in parts["Listen for"].split("\n")] == list(entry.points)


def test_a_heading_in_a_fence_is_no_part(tmp_path: Path) -> None:
    (tmp_path / "interview").mkdir()
    parts = "### Answer\n\n```\n## no\n### no\n```\n\n### Listen for\n\n- x\n\n### Follow-ups\n\n- y\n"
    text = f"---\ntitle: T\n---\n\n## q-a\n\n{parts}"
    (tmp_path / "interview" / "01-t.md").write_text(text)
    ((title, (entry,)),) = whiteboard.areas(tmp_path)
    assert (title, entry.id, list(entry.parts)) == ("T", "q-a", ["Answer", "Listen for", "Follow-ups"])
    assert entry.parts["Answer"] == "```\n## no\n### no\n```"


def test_what_is_not_generated_is_left_where_it_is() -> None:
    notebook = nbformat.read(CHAPTER, as_version=4)
    generated = [cell for cell in notebook.cells if whiteboard.TAG in cell.metadata.get("tags", [])]
    notebook.cells = [notebook.cells[0], generated[0], notebook.cells[1]]
    cells = whiteboard.renewed(notebook, COURSE)
    assert [cells[0], cells[-1]] == [notebook.cells[0], notebook.cells[2]]
    assert len(cells) == len(generated) + 2


def test_an_entry_without_a_question_is_an_error(tmp_path: Path) -> None:
    for name in ("questions.yaml", "syllabus.yaml"):
        shutil.copy(COURSE / name, tmp_path)
    (tmp_path / "interview").mkdir()
    (tmp_path / "interview" / "01-t.md").write_text("---\ntitle: T\n---\n\n## q-nobody-asks\n\n### Answer\n\nx\n")
    with pytest.raises(KeyError, match="q-nobody-asks"):
        list(whiteboard.texts(tmp_path))


def test_links_of_the_chapter_lead_somewhere() -> None:
    for cell in nbformat.read(CHAPTER, as_version=4).cells:
        if cell.cell_type == "markdown":
            for link in re.findall(r"\]\(([^)#]+)\)", re.sub(r"```.*?```|`[^`]*`", "", cell.source, flags=re.DOTALL)):
                assert link.startswith("http") or (COURSE / link).exists(), link
