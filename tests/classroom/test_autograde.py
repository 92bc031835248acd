"""`nbgrader autograde` of learners who want more points than they earned: what reaches the gradebook, and the pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hand_ins import ASSIGNMENT, MORE, NOTEBOOK, ROOT, nbgrader
from nbgrader.api import Gradebook

from grader.classroom.check import MIME
from grader.sandbox import modes

pytestmark = pytest.mark.heavy


def graded(folder: Path, learner: str) -> list[Any]:
    """The cells of a learner's graded notebook."""
    path = folder / "autograded" / learner / ASSIGNMENT / f"{NOTEBOOK}.ipynb"
    return list(nbformat.read(path, as_version=4).cells)


def checks(cells: list[Any]) -> list[Any]:
    """The graded cells that call check()."""
    return [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("grade")]


# learner, points that their function earns: no more, and no less
GRADES = [("forger", 0), ("editor", 16), ("quitter", 20)]


@pytest.mark.parametrize(("learner", "points"), GRADES, ids=[learner for learner, _ in GRADES])
def test_the_services_record_is_the_grade(class_of_cheats: Path, learner: str, points: float) -> None:
    with Gradebook(f"sqlite:///{class_of_cheats / 'gradebook.db'}", "rankup") as book:
        found = book.find_submission_notebook(NOTEBOOK, ASSIGNMENT, learner)
        assert (found.score, found.max_score, found.needs_manual_grade) == (points, 20, False)
    recorded = checks(graded(class_of_cheats, learner))
    assert len(recorded) == 7
    assert sum(check["points"] for cell in recorded for check in cell.outputs[0].data[MIME]) == points


def test_the_kernel_puts_nothing_beside_the_record(class_of_cheats: Path) -> None:
    cells = graded(class_of_cheats, "forger")
    for cell in checks(cells):
        assert [output.output_type for output in cell.outputs] == ["execute_result"]
        assert cell.outputs[0].data["text/plain"] == "0.0"
    forged = [output for cell in cells if cell not in checks(cells) for output in cell.get("outputs", [])]
    assert not [output for output in forged if MIME in output.get("data", {})], "forged data is not kept"


@pytest.mark.skipif(modes.mode() != "full", reason="no full isolation here")
def test_the_kernel_sees_nobodys_notebooks(class_of_cheats: Path) -> None:
    shown = [output.get("text", "") for cell in graded(class_of_cheats, "forger") for output in cell.get("outputs", [])]
    assert "LEAK" not in "".join(shown)


def test_cells_that_were_removed_or_edited_are_as_they_were_given_out(class_of_cheats: Path) -> None:
    released = nbformat.read(class_of_cheats / "release" / ASSIGNMENT / f"{NOTEBOOK}.ipynb", as_version=4)
    before = {cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.points for cell in checks(released.cells)}
    after = {cell.metadata.nbgrader.grade_id: cell for cell in checks(graded(class_of_cheats, "editor"))}
    assert {name: cell.metadata.nbgrader.points for name, cell in after.items()} == before
    assert all("check(ring_all_reduce" in cell.source for cell in after.values())


def test_a_kernel_that_ended_says_so_where_it_did(class_of_cheats: Path) -> None:
    said = [
        output.evalue
        for cell in graded(class_of_cheats, "quitter")
        for output in cell.get("outputs", [])
        if "evalue" in output
    ]
    assert said[0] == "the kernel ended"


def test_pages_hold_no_scripts_of_a_learners(class_of_cheats: Path) -> None:
    page = (class_of_cheats / "feedback" / "quitter" / ASSIGNMENT / f"{NOTEBOOK}.html").read_text()
    assert page.count("<b>kept</b>") == 2, "what it shows is shown: in Markdown, and in an output"
    assert "<svg" in page
    for part in ("window.injected = 1</script>", "<img src=x", 'href="javascript:'):
        assert part not in page


def test_nothing_that_a_learner_did_is_an_error_of_nbgraders(class_of_cheats: Path) -> None:
    log = (class_of_cheats / "autograde.log").read_text()
    assert "Traceback" not in log
    for learner in MORE:
        assert f"submitted/{learner}/" in log


def test_without_full_isolation_nothing_is_run(class_of_cheats: Path) -> None:
    done = nbgrader(class_of_cheats, "autograde", ASSIGNMENT, RANKUP_SANDBOX="none", RANKUP_TRUST_SUBMISSIONS="")
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if "ERROR" in line]
    assert "Notebooks are not run here, because they would not be isolated" in line
    assert "Traceback" not in done.stderr


FORMGRADER = f"""
import asyncio, sys
from nbgrader.apps import NbGraderAPI
from traitlets.config.loader import PyFileConfigLoader
api = NbGraderAPI(config=PyFileConfigLoader("nbgrader_config.py", path={str(ROOT)!r}).load_config())
async def button():  # a handler of a Jupyter server's: its event loop is running
    return api.autograde({ASSIGNMENT!r}, "forger", force=True)
result = asyncio.run(button())
sys.exit(None if result["success"] else result["error"] + result.get("log", ""))
"""


def test_formgraders_button_does_the_same(class_of_cheats: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "RANKUP_CLASS": str(class_of_cheats), "RANKUP_TRUST_SUBMISSIONS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", FORMGRADER], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert [cell.outputs[0].data["text/plain"] for cell in checks(graded(class_of_cheats, "forger"))] == ["0.0"] * 7
