"""nbgrader as a teacher uses it, with nothing but the repository's nbgrader_config.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hand_ins import ASSIGNMENT, NOTEBOOK, ROOT, nbgrader

from grader import exercise, registry


def cells(path: Path) -> list[Any]:
    return list(nbformat.read(path, as_version=4).cells)


def test_exercises_are_what_solutions_generate(released: Path) -> None:
    fresh = (released / "release" / ASSIGNMENT / f"{NOTEBOOK}.ipynb").read_text()
    committed = (ROOT / "exercises" / ASSIGNMENT / f"{NOTEBOOK}.ipynb").read_text()
    assert fresh == committed, "exercises/ is out of date: run `make release` and commit it"


# learner, points, kind of the first loss
GRADES = [
    ("bela", 20, None),
    ("dmitri", 0, "deadlock"),
    ("judit", 0, "syntax_error"),
]


@pytest.mark.heavy
@pytest.mark.parametrize(("learner", "points", "kind"), GRADES, ids=[grade[0] for grade in GRADES])
def test_points_reach_the_gradebook_and_the_reason_the_learner(
    classroom: Path, learner: str, points: float, kind: str | None
) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{classroom / 'gradebook.db'}", "rankup") as book:
        graded = book.find_submission_notebook(NOTEBOOK, ASSIGNMENT, learner)
        assert (graded.score, graded.max_score) == (points, 20)
    page = (classroom / "feedback" / learner / ASSIGNMENT / f"{NOTEBOOK}.html").read_text()
    if kind:
        assert f"<code>{kind}</code>" in page
    if kind != "syntax_error":
        assert "<svg" in page, "the feedback page has no picture of the run"


@pytest.mark.heavy
def test_noise_on_stderr_costs_nothing(classroom: Path) -> None:
    graded = cells(classroom / "autograded" / "bela" / ASSIGNMENT / f"{NOTEBOOK}.ipynb")
    outputs = [o for cell in graded if cell.cell_type == "code" for o in cell.outputs if o.get("name") == "stderr"]
    assert outputs, "this learner is there because their code is noisy"


@pytest.mark.heavy
@pytest.mark.parametrize("learner", ["bela", "dmitri"])
def test_validate_says_what_check_says(classroom: Path, learner: str) -> None:
    done = nbgrader(classroom, "validate", classroom / "submitted" / learner / ASSIGNMENT / f"{NOTEBOOK}.ipynb")
    assert done.returncode == 0, done.stderr
    assert ("Success!" in done.stdout) == (learner != "dmitri"), done.stdout
    assert ("Deadlock" in done.stdout) == (learner == "dmitri"), done.stdout


def call(found: exercise.Exercise, function: str, check: str) -> str:
    """How a cell asks for a check: it says of which exercise where several have a function of that name."""
    owners = [other.name for other in registry.catalogue() if function in other.function_names]
    more = f', exercise="{found.name}"' if len(owners) > 1 else ""
    return f'check({function}, "{check}"{more})'


def test_every_exercises_graded_cells_are_its_checks() -> None:
    for found in registry.catalogue():
        [path] = (ROOT / "solutions").glob(f"*/{found.name}.ipynb")
        graded = [cell for cell in cells(path) if cell.metadata.get("nbgrader", {}).get("grade")]
        points = {
            check.name: cell.metadata.nbgrader.points
            for check in found.checks
            for cell in graded
            if any(call(found, function, check.name) in cell.source for function in found.function_names)
        }
        assert points == {check.name: check.points for check in found.checks}, path
        assert len(graded) == len(found.checks)
        assert any("BEGIN HIDDEN TESTS" in cell.source for cell in graded), "no hidden check"
        solutions = [cell for cell in cells(path) if cell.metadata.get("nbgrader", {}).get("solution")]
        assert len(solutions) == 1, "a learner's whole graded code is one cell"
        assert path.parent.name.startswith(found.chapter)


def test_notebooks_are_committed_without_outputs() -> None:
    for folder in ("solutions", "exercises", "course"):
        for path in (ROOT / folder).rglob("*.ipynb"):
            for cell in json.loads(path.read_text())["cells"]:
                assert not cell.get("outputs"), f"{path.relative_to(ROOT)} has outputs: clear them"
                assert cell.get("execution_count") is None, f"{path.relative_to(ROOT)} has execution counts"


@pytest.mark.parametrize("name", registry.names())
def test_a_released_cell_runs_and_defines_all_that_is_asked_for(name: str) -> None:
    """A stub at the top of a cell would leave learners without the skeleton, and end the cell."""
    [path] = (ROOT / "exercises").glob(f"*/{name}.ipynb")
    [source] = [cell.source for cell in cells(path) if cell.metadata.get("nbgrader", {}).get("solution")]
    defined: dict[str, Any] = {}
    exec(source, defined)
    assert set(registry.find(name).function_names) <= defined.keys()
    assert "raise NotImplementedError()" in source, "the solution was released"
