"""Notebooks and README say what EXERCISE says, and nothing of it is typed twice."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from grader import catalog, registry
from grader.authoring import sync
from grader.submission import BadRequest

EXERCISE = registry.find("ring_all_reduce")
NOTEBOOK = sync.read(catalog.solution_notebook("ring_all_reduce"))


def graded(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if sync.marks(cell).get("grade")]


def test_everything_is_in_step() -> None:
    assert sync.sync([], dry=True) == [], "run `rankup exercise sync` and commit what it writes"


def test_points_title_and_header_come_from_the_exercise() -> None:
    check, *others = EXERCISE.checks
    changed = replace(
        EXERCISE, title="Another", minutes=7, difficulty=3, checks=(*others, replace(check, name="total", points=9))
    )
    made = sync.synced(changed, NOTEBOOK)
    head = "".join(made["cells"][0]["source"])
    assert head.startswith("# Another\n\n*Chapter 06 · about 7 minutes · hard*\n\n**The interviewer:**")
    cells = graded(made)
    assert len(cells) == len(changed.checks)
    assert "".join(cells[0]["source"]) == 'from grader import check\n\ncheck(ring_all_reduce, "any_length")'
    assert "".join(cells[-1]["source"]) == 'check(ring_all_reduce, "total")'
    assert cells[-1]["metadata"]["nbgrader"] == {
        "grade": True, "grade_id": "check-total", "locked": True, "points": 9,
        "schema_version": 3, "solution": False, "task": False,
    }  # fmt: skip
    assert sync.synced(EXERCISE, made)["cells"][0] == NOTEBOOK["cells"][0]
    ends = [[cell["id"] for cell in notebook["cells"]][-1] for notebook in (made, NOTEBOOK)]
    assert ends == ["follow-ups", "follow-ups"]


def test_a_hidden_cell_stays_hidden_and_keeps_its_words() -> None:
    hidden = graded(sync.synced(EXERCISE, NOTEBOOK))[-1]
    assert "".join(hidden["source"]).startswith(
        "# One MiB on 4 ranks: check(ring_all_reduce) runs this check, too\n###"
    )
    begun = copy.deepcopy(NOTEBOOK)
    begun["cells"] = [cell for cell in begun["cells"] if not sync.marks(cell).get("grade")]
    new = graded(sync.synced(EXERCISE, begun))
    assert ["HIDDEN" in "".join(cell["source"]) for cell in new] == [False] * 6 + [True]
    assert EXERCISE.checks[-1].title in new[-1]["source"][0]


def test_learners_get_no_solution_and_no_hidden_test() -> None:
    released = sync.text(sync.release(NOTEBOOK))
    assert "raise NotImplementedError()" in released
    assert "HIDDEN TESTS" not in released
    assert '\\"large\\"' not in released


def test_readmes_table_has_every_exercise_in_its_chapters_row() -> None:
    rows = [f"| {chapter} Title | |" for chapter in sorted({found.chapter for found in registry.catalogue()})]
    readme = "\n".join(["| 06 x | ring_all_reduce, gone, collectives |", *(row for row in rows if " 06 " not in row)])
    made = sync.table(readme.replace("| |", "| - |"))
    assert "| 06 x | ring_all_reduce, collectives, hierarchical_all_reduce |" in made
    with pytest.raises(BadRequest, match="has no row for the chapter of cost_model"):
        sync.table("")
