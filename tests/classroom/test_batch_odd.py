"""Odd submissions, each as a student of one class: what is graded all the same, what is not, and what is said of it."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from batch_class import RIGHT, SOLUTION, WRONG, Class, cell, empty, solved, words
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.utils import compute_checksum


def without(*names: str) -> dict[str, Any]:
    notebook = solved(RIGHT)
    notebook["cells"] = [c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") not in names]
    return notebook


def changed(name: str, **values: Any) -> dict[str, Any]:
    notebook = solved(RIGHT)
    cell(notebook, name).update(values)
    return notebook


def marked(name: str, **marks: Any) -> dict[str, Any]:
    notebook = solved(RIGHT)
    cell(notebook, name)["metadata"]["nbgrader"].update(marks)
    return notebook


def with_cells(*cells: Any) -> dict[str, Any]:
    notebook = solved(RIGHT)
    notebook["cells"] += cells
    return notebook


def code(source: Any, grade_id: str = "", **marks: Any) -> dict[str, Any]:
    metadata = {"nbgrader": {"grade_id": grade_id, **marks}} if grade_id else {}
    return {"cell_type": "code", "source": source, "metadata": metadata, "outputs": [], "execution_count": None}


def unmarked(source: str) -> dict[str, Any]:
    notebook = solved(source)
    for each in notebook["cells"]:
        each["metadata"] = {}
    return notebook


# what was handed in, points, what is said of it
ODD: dict[str, tuple[Any, float, str]] = {
    "a graded cell removed": (without("check-sum"), 20, "graded cell check-sum was missing: put back"),
    "two graded cells removed": (without("check-sum", "check-large"), 20, "check-sum, check-large were missing"),
    "only the solution left": (
        {"cells": [code(RIGHT, SOLUTION, solution=True)], "nbformat": 4},
        20,
        "check-requests, check-large were missing: put back",
    ),
    "a graded cell edited": (changed("check-sum", source="4.0"), 20, "graded cell check-sum was edited: put back"),
    "a graded cell made text": (changed("check-sum", cell_type="markdown"), 20, "check-sum was edited"),
    "points changed": (marked("check-sum", points=100), 20, ""),
    "a graded cell made ungraded": (marked("check-sum", grade=False, locked=False), 20, ""),
    "an extra graded cell": (with_cells(code("100.0", "bonus", grade=True, points=100)), 20, ""),
    "a graded cell twice": (with_cells(code("1", "check-sum", grade=True, points=4)), 20, "there more than once"),
    "the solution twice": (with_cells(code(WRONG, SOLUTION, solution=True)), 0, "the last one counts"),
    "the solution cell removed": (without(SOLUTION), 0, "the solution cell is missing"),
    "no marks at all": (unmarked(RIGHT), 20, "the grading used the last cell that defines ring_all_reduce"),
    "the function in another cell": (
        {**solved("pass\n"), "cells": [*solved("pass\n")["cells"], code(RIGHT)]},
        20,
        "the solution cell does not define ring_all_reduce",
    ),
    "a cell that is a number": (with_cells(7), 20, "1 cell left out"),
    "cells without a type": (with_cells({}, {"cell_type": "slide"}), 20, "2 cells left out"),
    "a source that is a number": (with_cells(code(7)), 20, "1 cell left out"),
    "metadata that is a list": (with_cells({**code("1"), "metadata": [1]}), 20, ""),
    "marks that are a list": (with_cells({**code("1"), "metadata": {"nbgrader": [1]}}), 20, ""),
    "a name that is a number": (with_cells(code("1", 7, solution=True)), 20, ""),  # type: ignore[arg-type]
    "half a character": (with_cells(code("\ud800")), 20, ""),
    "metadata of the notebook that is text": ({**solved(RIGHT), "metadata": "none"}, 20, ""),
}


def link(path: Path) -> None:
    target = path.parent.parent / "other.ipynb"
    path.rename(target)
    path.symlink_to(target)


def linked_folder(path: Path) -> None:
    target = path.parents[3] / "elsewhere"
    path.parent.rename(target)
    path.parent.symlink_to(target)


def linked_student(path: Path) -> None:
    target = path.parents[3] / "elsewhere too"
    path.parents[1].rename(target)
    path.parents[1].symlink_to(target)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def sparse(path: Path) -> None:
    os.truncate(path, 200_000_000)


def bytes_of(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


LONG = json.dumps({"cells": [code("#" * 5_000_000)]}).encode()

# what becomes of the file, and what is said of it
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "broken JSON": (bytes_of(b'{"cells": ['), "is not a notebook (broken JSON)"),
    "an empty file": (bytes_of(b""), "is empty"),
    "blanks": (bytes_of(b" \n"), "is empty"),
    "a list": (bytes_of(b"[1]"), "is not a notebook (no list of cells)"),
    "cells that are none": (bytes_of(b'{"cells": {}}'), "is not a notebook (no list of cells)"),
    "an old notebook": (bytes_of(b'{"worksheets": [], "nbformat": 3}'), "is not a notebook (no list of cells)"),
    "no UTF-8": (bytes_of(b'{"cells": [\n"\xff"]}'), "is not UTF-8 text (line 2)"),
    "deeply nested": (bytes_of(b"[" * 200_000), "is not a notebook (broken JSON)"),
    "a long number": (bytes_of(b'{"cells": %s}' % (b"1" * 9999)), "is not a notebook (broken JSON)"),
    "made of brackets": (bytes_of(b'{"cells": [%s]}' % (b"[]," * 5_000_001)), "more than 5,000,000 lists and objects"),
    "too much text": (bytes_of(LONG), "has 5 MB of text in its cells, and at most 4 MB are allowed"),
    "too large": (sparse, "has 200 MB; 100 MB is the most that is read"),
    "a link": (link, "is a link, and links are not followed"),
    "a link to a folder": (linked_folder, "the folder is a link, and links are not followed"),
    "a link to a student": (linked_student, "the folder is a link, and links are not followed"),
    "a pipe": (pipe, "is not a regular file"),
    "a folder": (folder, "is a folder"),
}


SECOND = "ring_all_reduce (1).ipynb"

# what was handed in under which names, the score and whether a person must look at it, and what is said of it
RENAMED: dict[str, tuple[dict[str, Any], tuple[float, bool], str]] = {
    "a second download": ({SECOND: RIGHT}, (20, False), f"ring_all_reduce.ipynb was handed in as {SECOND}"),
    "without marks": ({SECOND: unmarked(RIGHT)}, (20, False), f"ring_all_reduce.ipynb was handed in as {SECOND}"),
    "two": ({"a.ipynb": RIGHT, "b.ipynb": WRONG}, (0, True), "a.ipynb and b.ipynb may both be meant"),
    "no solution": ({"notes.ipynb": {"cells": []}}, (0, False), "ring_all_reduce.ipynb was not handed in"),
    "broken": ({"notes.ipynb": b"{"}, (0, False), "was not handed in; notes.ipynb is not a notebook (broken JSON)"),
    "an old one too": ({"old.ipynb": WRONG, "ring_all_reduce.ipynb": RIGHT}, (20, False), ""),
    "nothing": ({"notes.txt": b""}, (0, False), "ring_all_reduce.ipynb was not handed in"),
}


@dataclass(frozen=True)
class Graded:
    """The class after two runs: exit status and whose work was graded, and what the first run said of each student."""

    room: Class
    status: int
    graded: list[str]
    again: tuple[int, list[str]]
    remarks: dict[str, str]


def student(table: str, case: str) -> str:
    return f"{table} {case}"


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Graded:
    room = empty(tmp_path_factory.mktemp("odd-class"))
    for case, (notebook, _, _) in ODD.items():
        room.hand_in(student("odd", case), notebook)
    for case, (spoil, _) in BROKEN.items():
        spoil(room.hand_in(student("broken", case), RIGHT))
    for case, (files, _, _) in RENAMED.items():
        for name, notebook in files.items():
            room.hand_in(student("renamed", case), notebook, name)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status, graded = room.grade()
    with contextlib.redirect_stdout(io.StringIO()):
        again = room.grade()
    remarks: dict[str, str] = {}
    for line in said.getvalue().partition("To look at\n")[2].splitlines():
        who, _, sentence = line.partition(": ")
        remarks[who] = remarks.get(who, "") + sentence
    return Graded(room, status, graded, again, remarks)


def test_nothing_stops_the_run_and_nothing_is_graded_twice(odd: Graded) -> None:
    assert odd.status == 1, "some could not be graded"
    assert odd.again == (1, [])


@pytest.mark.parametrize("case", ODD)
def test_an_odd_notebook_is_graded_and_what_is_odd_is_said(odd: Graded, case: str) -> None:
    who, (_, points, said) = student("odd", case), ODD[case]
    assert odd.room.score(who) == (points, False)
    assert said in odd.remarks.get(who, "")
    assert (who in odd.remarks) == bool(said)


@pytest.mark.parametrize("case", ODD)
def test_graded_notebooks_are_what_nbgrader_takes(odd: Graded, case: str) -> None:
    graded = nbformat.read(odd.room.graded(student("odd", case)), as_version=4)
    nbformat.validate(graded)
    MetadataValidator().validate_nb(graded)
    locked = [each for each in graded.cells if each.metadata.get("nbgrader", {}).get("locked")]
    assert all(compute_checksum(each) == each.metadata.nbgrader.checksum for each in locked)
    given = {marks["grade_id"]: marks for marks in marks_of(solved(RIGHT)["cells"]) if marks["grade"]}
    kept = [marks for marks in marks_of(graded.cells) if marks["grade"]]
    assert sorted(marks["grade_id"] for marks in kept) == sorted(given)
    assert all(marks["points"] == given[marks["grade_id"]]["points"] for marks in kept)


def test_graded_cells_are_put_back_where_they_stood(odd: Graded) -> None:
    graded = nbformat.read(odd.room.graded(student("odd", "two graded cells removed")), as_version=4)
    names = [marks["grade_id"] for marks in marks_of(graded.cells)]
    assert names == [marks["grade_id"] for marks in marks_of(solved(RIGHT)["cells"])]


def marks_of(cells: list[Any]) -> list[Any]:
    return [each["metadata"]["nbgrader"] for each in cells if "nbgrader" in each["metadata"]]


@pytest.mark.parametrize("case", BROKEN)
def test_what_cannot_be_read_is_said_and_left_to_a_person(odd: Graded, case: str) -> None:
    who, (_, said) = student("broken", case), BROKEN[case]
    assert who not in odd.graded
    file = "" if said.startswith("the folder") else "ring_all_reduce.ipynb "
    assert odd.remarks[who].startswith(f"not graded: {file}")
    assert odd.remarks[who].endswith(said)
    assert odd.room.score(who) == (0, True)
    assert said.split(";")[0] in words(odd.room.page(who).read_text())
    assert not odd.room.graded(who).exists()


@pytest.mark.parametrize("case", RENAMED)
def test_a_renamed_notebook(odd: Graded, case: str) -> None:
    who, (_, score, said) = student("renamed", case), RENAMED[case]
    assert odd.room.score(who) == score
    assert said in odd.remarks.get(who, "")
    assert (who in odd.remarks) == bool(said)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_to_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    room = empty(tmp_path)
    room.hand_in("ada", RIGHT).chmod(0)
    assert room.grade() == (1, [])
    assert "ring_all_reduce.ipynb cannot be read (Permission denied)" in words(capsys.readouterr().out)


def test_a_notebook_of_50_MB_is_graded_and_its_outputs_dropped(tmp_path: Path) -> None:
    room = empty(tmp_path)
    notebook = solved(RIGHT)
    output = {"output_type": "stream", "name": "stdout", "text": "x" * 50_000_000}
    notebook["cells"].append({**code("print('x' * 50_000_000)"), "outputs": [output]})
    room.hand_in("ada", notebook)
    assert room.grade() == (0, ["ada"])
    assert room.score("ada") == (20, False)
    assert room.graded("ada").stat().st_size < 1_000_000
