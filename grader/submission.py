"""A .py or .ipynb file -> the learner's source: one rule which text is graded, whoever asks."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.verdict import Diagnosis, Kind

MOST_TEXT = 4_000_000  # characters in all cells of a notebook together, and bytes of a .py file
MOST_BYTES = 100_000_000  # of a notebook with its outputs
MOST_PARTS = 5_000_000  # lists and objects in a notebook: a hundred megabytes of "[]" would take gigabytes to read


class BadRequest(Exception):  # noqa: N818 - it is the request that is bad, not the program
    """What was asked cannot be done: one sentence for stderr, exit status 2."""


class Unreadable(Exception):  # noqa: N818 - reads as what it is
    """A file that cannot be graded: one sentence's end, as in "a.ipynb is a link to another file"."""


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

    def found(
        self, kind: Kind, text: str, rank: int | None = None, line: int | None = None, expected: str | None = None,
        got: str | None = None,
    ) -> Diagnosis:  # fmt: skip
        """What is said of this file."""
        return Diagnosis(kind, text, rank, self.file, line, expected, got)

    def quote(self, line: int | None) -> str:
        """ " (line 7: `dist.send(x, 1)`)", or nothing where the line is not the learner's."""
        lines = self.text.splitlines()
        if not line or line > len(lines):
            return ""
        code = lines[line - 1].strip()
        return f" (line {line}: `{code if len(code) <= 60 else code[:57] + '...'}`)"


@dataclass(frozen=True)
class Cell:
    """One cell of a notebook, without outputs. `grade_id` is nbgrader's name for it, empty where it has none.

    `solution` and `locked` are nbgrader's marks, `attachments` the pictures of a Markdown cell.
    """

    kind: str
    source: str
    grade_id: str = ""
    solution: bool = False
    locked: bool = False
    attachments: dict[str, dict[str, str]] = field(default_factory=dict)


def read(path: Path, names: Sequence[str]) -> Submission:
    """Read the file a learner handed in for the exercise that asks for `names`.

    A file that is no submission at all (missing, unreadable, not .py or .ipynb, not a notebook) raises BadRequest.
    A file that a learner could have handed in but that holds no Python text comes back as `broken`.
    """
    if path.suffix not in (".py", ".ipynb"):
        raise BadRequest(f"{path}: a submission is a .py or an .ipynb file")
    most = MOST_TEXT if path.suffix == ".py" else MOST_BYTES
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= most else b""
    except FileNotFoundError:
        raise BadRequest(f"{path}: no such file") from None
    except IsADirectoryError:
        raise BadRequest(f"{path}: is a folder, not a file") from None
    except OSError as error:
        raise BadRequest(f"{path}: cannot be read ({error.strerror})") from None
    if size > most:
        raise BadRequest(f"{path}: has {size / 1e6:,.1f} MB, more than {most / 1e6:g} MB. This is no submission")
    name = path.name
    if not data.strip():
        message = f"{name} is empty. Define {names[0]} in it."
        return Submission("", name, Diagnosis("missing_function", message))
    try:
        source = importlib.util.decode_source(data) if path.suffix == ".py" else data.decode("utf-8-sig")
    except (SyntaxError, UnicodeDecodeError) as error:
        line, why = 1, str(error)
        if isinstance(error, UnicodeDecodeError):
            line = data[: error.start].count(b"\n") + 1
            why = f"line {line} holds bytes that are not valid {error.encoding}"
        message = f"{name} cannot be read as text: {why}. Save the file as UTF-8."
        return Submission("", name, Diagnosis("syntax_error", message, file=name, line=line))
    if path.suffix == ".py":
        return Submission(source, name)
    try:
        cells, _ = parse(data)
    except Unreadable as error:
        raise BadRequest(f"{path}: {error}") from None
    return Submission(graded(cells, names)[0], name)


def graded(cells: Sequence[Cell], names: Sequence[str]) -> tuple[str, str]:
    """The text of a notebook that is graded, for an exercise that asks for `names`, and a remark where that is not
    simply what stands in the solution cell.

    It is the marked solution cells' text. Where that defines none of the names, it is the learner's own cells instead:
    for each name the last one that defines it. Of cells with the same mark the last one has it.
    """
    last = {cell.grade_id: number for number, cell in enumerate(cells)}
    code = [(cell, not cell.grade_id or last[cell.grade_id] == at) for at, cell in enumerate(cells)]
    code = [(cell, whole) for cell, whole in code if cell.kind == "code"]
    marked = [cell.source for cell, whole in code if cell.solution and whole]
    text = "\n\n".join(marked)
    if not names or defines(text, names):
        return text, ""
    own = [cell.source for cell, whole in code if not (cell.locked and whole)]
    places = [[at for at, source in enumerate(own) if defines(source, [name])] for name in names]
    found = sorted({each[-1] for each in places if each})
    if not found:
        return text, "" if marked else "the solution cell is missing"
    why = "the solution cell defines nothing that the exercise asks for" if marked else "the solution cell is missing"
    what = names[0] if len(names) == 1 else "any of its functions"
    which = f"the last cell that defines {what} was" if len(found) == 1 else f"the last cells that define {what} were"
    return "\n\n".join(own[at] for at in found), f"{why}, so {which} graded"


def defines(text: str, names: Sequence[str]) -> bool:
    """Whether a text, though it may not even parse, looks as if it defined one of the names."""
    listed = "|".join(map(re.escape, names))
    found = rf"^(?:(?:async\s+)?def\s+(?:{listed})\b|class\s+(?:{listed})\b|(?:{listed})\s*=(?!=))"
    return re.search(found, text, re.MULTILINE) is not None


def parse(data: bytes) -> tuple[list[Cell], list[str]]:
    """The cells of a notebook file, without outputs, and what is odd about them. Raises Unreadable."""
    return cells_of(loaded(data))


def loaded(data: bytes) -> Any:
    """What the JSON of a notebook file holds. Raises Unreadable."""
    if not data.strip():
        raise Unreadable("is empty")
    if data.count(b"[") + data.count(b"{") > MOST_PARTS:
        raise Unreadable(f"holds more than {MOST_PARTS:,} JSON lists and objects")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Unreadable(f"is not UTF-8 text (line {line})") from None
    except (ValueError, RecursionError):
        raise Unreadable("is not a notebook (broken JSON)") from None


def cells_of(notebook: Any) -> tuple[list[Cell], list[str]]:
    """The cells of a notebook as JSON has it, and what is odd about them. Raises Unreadable."""
    listed = notebook.get("cells") if isinstance(notebook, dict) else None
    cells = [cell for each in listed if (cell := _cell(each)) is not None] if isinstance(listed, list) else []
    if not isinstance(listed, list) or (listed and not cells):
        raise Unreadable("is not a notebook (no list of cells)")
    size = sum(len(cell.source) for cell in cells)
    if size > MOST_TEXT:
        raise Unreadable(f"holds {size / 1e6:.0f} MB of text in its cells, more than {MOST_TEXT / 1e6:.0f} MB")
    lost = len(listed) - len(cells)
    return cells, [f"left out {lost} cell{'s' * (lost > 1)} without a notebook cell's format"] if lost else []


def _cell(each: Any) -> Cell | None:
    """A cell as nbformat has it, or None for anything else."""
    if not isinstance(each, dict) or each.get("cell_type") not in ("code", "markdown", "raw"):
        return None
    source = each.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        return None
    source = source.encode("utf-8", errors="replace").decode()  # half a surrogate pair is no text
    metadata, pictures = each.get("metadata"), each.get("attachments")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    marks = marks if isinstance(marks, dict) else {}
    name = marks.get("grade_id")
    kept: Any = pictures if each["cell_type"] == "markdown" and _are_pictures(pictures) else {}
    grade_id = name if isinstance(name, str) else ""
    return Cell(each["cell_type"], source, grade_id, marks.get("solution") is True, marks.get("locked") is True, kept)


def _are_pictures(attachments: Any) -> bool:
    """Whether it is {name: {MIME type: base64}} for pictures only."""
    return isinstance(attachments, dict) and all(
        isinstance(data, dict)
        and all(kind.startswith("image/") and isinstance(text, str) for kind, text in data.items())
        for data in attachments.values()
    )
