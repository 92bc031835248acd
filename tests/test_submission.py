"""Files that learners hand in, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader import submission
from grader.submission import BadRequest

SOLUTION = {"nbgrader": {"solution": True, "grade": False, "grade_id": "solution"}}
OTHER = {"nbgrader": {"solution": True, "grade": False, "grade_id": "more"}}


def notebook(*cells: tuple[str, object, dict[str, object]]) -> bytes:
    return json.dumps(
        {"cells": [{"cell_type": kind, "source": source, "metadata": meta} for kind, source, meta in cells]}
    ).encode()


NOTEBOOKS = {
    "the marked cell": (notebook(("code", "def f(): 0", {}), ("code", "def f(): 1", SOLUTION)), "def f(): 1"),
    "source as a list of lines": (notebook(("code", ["def f():\n", "  1"], SOLUTION)), "def f():\n  1"),
    "two marked cells": (notebook(("code", "a = 1", SOLUTION), ("code", "b = 2", OTHER)), "a = 1\n\nb = 2"),
    "a marked cell that was copied": (notebook(("code", "f = 1", SOLUTION), ("code", "f = 2", SOLUTION)), "f = 2"),
    "emptied, and one's own": (notebook(("code", "pass", SOLUTION), ("code", "def f(): 1", {})), "def f(): 1"),
    "without marks the last that defines it": (
        notebook(("code", "def f(): 0", {}), ("code", "def f(): 1", {}), ("code", "f()", {})),
        "def f(): 1",
    ),
    "nothing that defines it": (notebook(("markdown", "def f()", {})), ""),
    "odd metadata": (notebook(("code", "def f(): 1", {"nbgrader": 3})), "def f(): 1"),
}


@pytest.mark.parametrize(("data", "source"), NOTEBOOKS.values(), ids=NOTEBOOKS.keys())
def test_a_notebooks_solution(tmp_path: Path, data: bytes, source: str) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(data)
    assert submission.read(path, ["f"]).source == source


BROKEN = {
    "empty.py": (b"", "missing_function"),
    "blank.py": (b" \n\n", "missing_function"),
    "empty.ipynb": (b"", "missing_function"),
    "latin.py": ("x = 'é'".encode("latin-1"), "syntax_error"),
    "latin.ipynb": (b'{"cells": ["\xff"]}', "syntax_error"),
    "coding.py": (b"# coding: klingon\n", "syntax_error"),
}


@pytest.mark.parametrize(("name", "data", "kind"), [(n, d, k) for n, (d, k) in BROKEN.items()], ids=BROKEN.keys())
def test_a_file_without_python_text_is_a_verdict(tmp_path: Path, name: str, data: bytes, kind: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    found = submission.read(path, ["f"]).broken
    assert found is not None
    assert found.kind == kind
    assert name in found.message


def test_a_declared_encoding_is_honoured(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes("# coding: latin-1\nx = 'é'".encode("latin-1"))
    assert "é" in submission.read(path, ["f"]).source


BAD = {
    "no.txt": (b"x", "a submission is a .py or an .ipynb file"),
    "json.ipynb": (b"{", "broken JSON"),
    "deep.ipynb": (b"[" * 100_000, "broken JSON"),
    "list.ipynb": (b"[]", "no list of cells"),
    "cells.ipynb": (b'{"cells": [3]}', "no list of cells"),
}


@pytest.mark.parametrize(("name", "data", "why"), [(n, d, w) for n, (d, w) in BAD.items()], ids=BAD.keys())
def test_what_is_no_submission_is_a_bad_request(tmp_path: Path, name: str, data: bytes, why: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(BadRequest, match=why):
        submission.read(path, ["f"])


def test_missing_files_and_folders_are_bad_requests(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    for name, why in (("gone.py", "no such file"), ("folder.py", "is a folder")):
        with pytest.raises(BadRequest, match=why):
            submission.read(tmp_path / name, ["f"])
