"""Every chapter runs from top to bottom, without an error and without a word on stderr, and covers its topics."""

from __future__ import annotations

import re
from pathlib import Path

import chapters
import nbformat
import pytest
import yaml
from chapters import CHAPTERS, COURSE
from nbclient import NotebookClient
from often import by_day

SYLLABUS = yaml.safe_load((COURSE / "syllabus.yaml").read_text())


@pytest.mark.parametrize("path", by_day({path.stem: path for path in CHAPTERS}, 6))
def test_a_chapter_runs_from_top_to_bottom(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": COURSE}}).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr", f"{path.name} writes to stderr: {output['text']}"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_has_a_section_for_each_of_its_topics(path: Path) -> None:
    tagged = set(re.findall(r"<!-- topic: ([a-z0-9-]+) -->", chapters.markdown(path)))
    topics = {topic["id"] for topic in SYLLABUS["topics"] if topic["chapter"] == path.stem[:2]}
    assert tagged == topics


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_cells_are_short(path: Path) -> None:
    for cell in chapters.notebook(path).cells:
        if cell.cell_type == "code":
            lines = [line for line in cell.source.splitlines() if line.strip()]
            assert len(lines) <= 15, f"move this into the package, with a test:\n{cell.source}"
