"""A learner's notebook made whole: which text is graded, and the teacher's cells as they were given out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grader.classroom.batch.assignment import Notebook, SourceCell
from grader.submission import Cell, graded


@dataclass(frozen=True)
class Whole:
    """The text that is graded, the notebook's cells with the teacher's own put right, and what had to be done."""

    source: str
    cells: tuple[tuple[Cell, SourceCell | None], ...]
    odd: tuple[str, ...]


def make(cells: Sequence[Cell], notebook: Notebook, functions: Sequence[str]) -> Whole:
    """A learner's cells for `notebook`, where the exercise asks for `functions`."""
    odd: list[str] = []
    known = {cell.name: cell for cell in notebook.cells}
    last = {cell.grade_id: number for number, cell in enumerate(cells)}
    twice = sorted({cell.grade_id for number, cell in enumerate(cells) if number != last[cell.grade_id]} & set(known))
    if twice:
        odd.append(f"{_cells(twice)} there more than once, and the last one counts")
    placed: list[tuple[Cell, SourceCell | None]] = []
    edited = []
    for number, cell in enumerate(cells):
        mine = known.get(cell.grade_id) if last[cell.grade_id] == number else None
        if mine is not None and mine.locked:
            if mine.points is not None and _edited(cell, mine):
                edited.append(mine.name)
            cell = Cell(mine.kind, mine.source)
        placed.append((cell, mine))
    if edited:
        odd.append(f"graded {_cells(edited)} edited: the original counts")
    missing = _put_back(placed, notebook.cells)
    if missing:
        odd.append(f"graded {_cells(missing)} missing: the original counts")
    source, remark = graded([_marked(cell, mine) for cell, mine in placed], functions)
    return Whole(source, tuple(placed), (*odd, remark) if remark else tuple(odd))


def _marked(cell: Cell, mine: SourceCell | None) -> Cell:
    """A cell with the teacher's marks in place of its own."""
    if mine is None:
        return replace(cell, grade_id="", solution=False, locked=False)
    return replace(cell, grade_id=mine.name, solution=mine.solution, locked=mine.locked)


def _cells(names: Sequence[str]) -> str:
    return f"cell {names[0]} was" if len(names) == 1 else f"cells {', '.join(names)} were"


def _edited(cell: Cell, given: SourceCell) -> bool:
    return cell.kind != given.kind or cell.source.strip() not in (given.released.strip(), given.source.strip())


def _put_back(placed: list[tuple[Cell, SourceCell | None]], given: Sequence[SourceCell]) -> list[str]:
    """Insert the graded cells that are missing, each behind the one that it was given out behind; their names."""
    missing = []
    behind = 0
    for cell in given:
        place = next((number for number, (_, mine) in enumerate(placed) if mine is cell), None)
        if place is not None:
            behind = place + 1
        elif cell.points is not None and cell.locked:
            placed.insert(behind, (Cell(cell.kind, cell.source), cell))
            behind += 1
            missing.append(cell.name)
    return missing
