"""Notebooks that try to win points or to do harm under `nbgrader autograde`: the released one, as an attack changes it.

`notebooks.md` holds them, written as wrong submissions are (see `grader.authoring.sections`), with the fields

    tries: points|harm
    earned: POINTS          that its solution cell honestly earns: the gradebook must not have more
    paid: yes               only where it must not have less either

The block of an attack has parts, each begun by a line `# %% WHAT`:

    # %% solution           what stands in the solution cell
    # %% first              a cell before all others
    # %% playground         in place of the cell that calls play(), in which learners try what they like
    # %% graded NAME        in place of what the graded cell with that grade_id holds
    # %% last               a cell after all others
    # %% markdown           a Markdown cell after all others
    # %% edit               no cell, but code of the test's own, which changes `notebook` (an nbformat node): what a
                            learner does to the file

An attack that has no part `solution` keeps the released stub there. @RING@ and @NAIVE@ stand for a right solution and
for one that is right but too dear; @TOKEN@, @CANARY@ and so on are replaced as in `corpus`. Where an attack sees from
inside that it went through, it prints WON.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat.v4 import new_code_cell, new_markdown_cell

from grader.authoring import sections
from grader.authoring.sections import Bad, Section

HERE = Path(__file__).parent
_NEEDED = ("tries", "earned")
_PART = re.compile(r"^# %% (\w+)(?: ([\w-]+))?$", re.MULTILINE)
SNIPPETS = {"RING": ("ring", "honest_ring"), "NAIVE": ("naive", "naive_all_reduce")}
_KINDS = ("solution", "first", "playground", "graded", "last", "markdown", "edit")


@dataclass(frozen=True)
class NotebookAttack:
    """One attack: what it says of itself, and its parts as (what, which, text)."""

    name: str
    told: str
    tries: str
    earned: float
    paid: bool
    parts: tuple[tuple[str, str, str], ...]


def attacks(file: Path = HERE / "notebooks.md") -> list[NotebookAttack]:
    """Every attack. Raises BadRequest for one that is not written as it must be."""
    known = (*_NEEDED, "paid")
    return list(sections.read(file.read_text(), file.name, known, _NEEDED, ("```python",), _attack).values())


def _attack(section: Section) -> NotebookAttack:
    text = "\n".join(section.body)
    found = list(_PART.finditer(text))
    ends = [part.start() for part in found[1:]] + [len(text)]
    parts = tuple(
        (part[1], part[2] or "", text[part.end() : end].strip("\n")) for part, end in zip(found, ends, strict=True)
    )
    if unknown := [what for what, _, _ in parts if what not in _KINDS]:
        raise Bad(f"no part is called {unknown[0]}")
    paid, earned = sections.yes(section.fields, "paid"), float(section.fields["earned"])
    return NotebookAttack(section.name, section.told, section.fields["tries"], earned, paid, parts)


def notebook(attack: NotebookAttack, released: Any, words: Mapping[str, str] | None = None) -> Any:
    """The notebook that is handed in: `released` (an nbformat node, left as it is) changed as the attack says."""
    made = copy.deepcopy(released)
    known = {**(words or {}), **{word: _right(*where) for word, where in SNIPPETS.items()}}
    for what, which, text in attack.parts:
        for word, value in known.items():
            text = text.replace(f"@{word}@", value)
        match what:
            case "solution":
                _cell(made, lambda mark, _: mark.get("solution") and not mark.get("grade")).source = text
            case "playground":
                _cell(made, lambda mark, source: not mark.get("grade") and "play(" in source).source = text
            case "graded":
                _cell(made, lambda mark, _, name=which: mark.get("grade_id") == name).source = text
            case "first":
                made.cells.insert(0, new_code_cell(text))
            case "last":
                made.cells.append(new_code_cell(text))
            case "markdown":
                made.cells.append(new_markdown_cell(text))
            case "edit":
                exec(text, {"notebook": made})
    return made


def _right(snippet: str, function: str) -> str:
    return (HERE / "snippets" / f"{snippet}.py").read_text().replace(function, "ring_all_reduce")


def _cell(made: Any, wanted: Any) -> Any:
    """The code cell that is wanted, by its nbgrader mark and its text. Raises ValueError if there is none."""
    for cell in made.cells:
        if cell.cell_type == "code" and wanted(cell.metadata.get("nbgrader", {}), cell.source):
            return cell
    raise ValueError("the released notebook has no such cell")
