"""A .py or .ipynb file -> the learner's source, and where each of its lines came from."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.verdict import Diagnosis


class BadRequest(Exception):  # noqa: N818 - it is the request that is bad, not the program
    """What was asked cannot be done: one sentence for stderr, exit status 2."""


@dataclass(frozen=True)
class Submission:
    """What a learner handed in.

    `source` is the Python text that is run (for a notebook: its solution cell), `name` what messages call the file,
    `broken` the verdict's reason when there is no text that could be run at all.
    """

    source: str
    name: str
    broken: Diagnosis | None = None

    def line(self, number: int | None) -> str:
        """The text of line `number` (1-based), stripped; empty where there is none."""
        lines = self.source.splitlines()
        return lines[number - 1].strip() if number and 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class Source:
    """The learner's file, to quote lines from."""

    file: str
    text: str

    def quote(self, line: int | None) -> str:
        """ " (line 7: `dist.send(x, 1)`)", or nothing where the line is not the learner's."""
        lines = self.text.splitlines()
        if not line or line > len(lines):
            return ""
        code = lines[line - 1].strip()
        return f" (line {line}: `{code if len(code) <= 60 else code[:57] + '...'}`)"


def read(path: Path, functions: Sequence[str]) -> Submission:
    """Read the file a learner handed in for the exercise that asks for `functions`.

    A file that is no submission at all (missing, unreadable, not .py or .ipynb, not a notebook) raises BadRequest.
    A file that a learner could have handed in but that holds no Python text comes back as `broken`.
    """
    if path.suffix not in (".py", ".ipynb"):
        raise BadRequest(f"{path}: a submission is a .py or an .ipynb file")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BadRequest(f"{path}: no such file") from None
    except IsADirectoryError:
        raise BadRequest(f"{path}: is a folder, not a file") from None
    except OSError as error:
        raise BadRequest(f"{path}: cannot be read ({error.strerror})") from None
    name = path.name
    if not data.strip():
        message = f"{name} is empty: it defines no {functions[0]}."
        return Submission("", name, Diagnosis("missing_function", message))
    try:
        source = importlib.util.decode_source(data) if path.suffix == ".py" else data.decode("utf-8-sig")
    except (SyntaxError, UnicodeDecodeError) as error:
        line = data[: error.start].count(b"\n") + 1 if isinstance(error, UnicodeDecodeError) else 1
        message = f"{name} is not UTF-8 text: line {line} holds bytes that are no characters. Save the file as UTF-8."
        return Submission("", name, Diagnosis("syntax_error", message, file=name, line=line))
    if path.suffix == ".py":
        return Submission(source, name)
    return Submission(_solution_cell(path, source, functions), name)


def _solution_cell(path: Path, text: str, functions: Sequence[str]) -> str:
    """The source of the notebook's solution cells, or where nbgrader's marks are gone, of the last that defines one of
    the functions."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequest(f"{path}: is not a notebook (broken JSON)") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise BadRequest(f"{path}: is not a notebook (no list of cells)")
    code = [cell for cell in cells if cell.get("cell_type") == "code"]
    marked = [_text(cell) for cell in code if _is_solution(cell)]
    defining = [_text(cell) for cell in code if any(f"def {function}" in _text(cell) for function in functions)]
    return "\n\n".join(marked) if marked else (defining[-1] if defining else "")


def _is_solution(cell: dict[str, Any]) -> bool:
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return isinstance(marks, dict) and marks.get("solution") is True


def _text(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    if isinstance(source, list):
        return "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""
