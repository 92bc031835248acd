"""One notebook by every road to a verdict: the same text is graded."""

from __future__ import annotations

import json
import linecache
import sys
import types
from pathlib import Path
from typing import Any

import nbformat
import pytest

from grader import registry, submission
from grader.classroom import autograde, check
from grader.classroom.batch import assignment, whole
from grader.classroom.batch.assignment import SourceCell
from grader.classroom.service import submitted
from grader.submission import Submission
from grader.verdict import Verdict

RING, TWO, CLOCK = "ring_all_reduce", "collectives", "VectorClock"
OWN = "def ring_all_reduce(x): 1"
BY_NAME, A_CLASS = "ring_all_reduce = abs\ndef f(): 1", "class VectorClock:\n    def f(self): 1"
REDUCE, SCATTER = "def reduce(x): 1", "def scatter(x): 1"

# what it is for, the cells (nbgrader's name, text), what of them is graded
NOTEBOOKS: dict[str, tuple[str, list[tuple[str, str]], str]] = {
    "the solution cell": (RING, [("", "y = 0"), ("solution", f"import math\n{OWN}")], f"import math\n{OWN}"),
    "emptied, and a cell of one's own": (
        RING,
        [("solution", "# it is below\n"), ("", "def ring_all_reduce(x): 0"), ("", OWN), ("", "y = ring_all_reduce")],
        OWN,
    ),
    "the solution cell is gone": (RING, [("", OWN), ("", "y = 1")], OWN),
    "there twice": (RING, [("solution", "def ring_all_reduce(x): 0"), ("solution", OWN)], OWN),
    "not by def": (RING, [("solution", "pass"), ("", BY_NAME)], BY_NAME),
    "a graded cell defines it": (RING, [("solution", "pass"), ("", OWN), ("check", "def f(): 1")], OWN),
    "a class": (CLOCK, [("solution", ""), ("", A_CLASS)], A_CLASS),
    "each in a cell": (
        TWO,
        [("solution", "pass"), ("", REDUCE), ("", "y = 1"), ("", SCATTER)],
        f"{REDUCE}\n\n{SCATTER}",
    ),
    "each in a cell, one changed": (
        TWO,
        [("solution", "pass"), ("", f"{REDUCE}0"), ("", SCATTER), ("", REDUCE)],
        f"{SCATTER}\n\n{REDUCE}",
    ),
}  # fmt: skip
MARKS = {"check": {"grade": True, "locked": True, "points": 4}, "solution": {"solution": True}}
PLAIN = {"grade": False, "locked": False, "solution": False, "task": False, "schema_version": 3}


def notebook(cells: list[tuple[str, str]]) -> Any:
    marks = [{"nbgrader": {**PLAIN, **MARKS[name], "grade_id": name}} if name else {} for name, _ in cells]
    made = [nbformat.v4.new_code_cell(text, metadata=mark) for (_, text), mark in zip(cells, marks, strict=True)]
    return nbformat.v4.new_notebook(cells=made)


def by_grade(made: Any, names: tuple[str, ...], folder: Path) -> str:
    path = folder / "a.ipynb"
    path.write_text(json.dumps(made))
    return submission.read(path, names).source


def by_class(made: Any, names: tuple[str, ...]) -> str:
    given = (
        SourceCell("solution", "code", "", "", locked=False, solution=True),
        SourceCell("check", "code", "check(f)", "check(f)", locked=True, points=4),
    )
    cells, _ = submission.cells_of(made)
    return whole.make(cells, assignment.Notebook("a", given), names).source


def by_nbgrader(made: Any, owner: str) -> str:
    class Record:
        def verdict(self, _: str, submission: Submission) -> Verdict:
            return Verdict(submission.source, (), 0, 0, ())

    return autograde._verdict(made, owner, Record()).exercise  # type: ignore[arg-type]


def by_check(cells: list[tuple[str, str]], owner: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> str:
    """What is graded when the notebook is run from top to bottom, whichever of its functions is asked about."""
    main = types.ModuleType("__main__")
    main.In = [text for _, text in cells]  # type: ignore[attr-defined]
    asked: list[list[str]] = []
    client = types.SimpleNamespace(grade=lambda name, cells, *_, **__: asked.append(cells) or Verdict("", (), 0, 0, ()))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "__main__", main)
        patch.setattr(check, "_service", lambda: client)
        for number, (_, text) in enumerate(cells):
            file = f"<cell {number}>"
            patch.setitem(linecache.cache, file, (len(text), None, [f"{line}\n" for line in text.splitlines()], file))
            exec(compile(text, file, "exec"), vars(main))
        for function in [vars(main)[name] for name in names if name in vars(main)]:
            check.check(function, exercise=owner)
    [text] = {submitted({"grade": owner, "cells": texts}).source for texts in asked}
    return text


@pytest.mark.parametrize("case", NOTEBOOKS)
def test_the_same_text_is_graded_by_every_road(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, cells, text = NOTEBOOKS[case]
    found = registry.owner(owner)
    names, made = found.function_names, notebook(cells)
    assert by_grade(made, names, tmp_path) == text
    assert by_class(made, names) == text
    assert by_nbgrader(made, owner) == text
    if "abs" not in text:  # check() takes what its own text defines
        assert by_check(cells, found.name, names, monkeypatch) == text
