"""What an assignment asks: its notebooks and their cells, as nbgrader's gradebook has them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from grader import registry
from grader.classroom.cells import Asked
from grader.exercise import Exercise
from grader.submission import BadRequest


@dataclass(frozen=True)
class SourceCell:
    """One cell that nbgrader knows by name. `points` is None where it is not graded.

    `source` is the teacher's text, `released` what learners got of it; `asked` the check that it asks for.
    """

    name: str
    kind: str
    source: str
    released: str
    locked: bool
    checksum: str | None = None
    points: float | None = None
    solution: bool = False
    task: bool = False
    asked: Asked | None = None

    @property
    def by_hand(self) -> bool:
        """Whether a person gives its points."""
        return self.task or (self.points is not None and (self.solution or self.kind != "code"))

    @property
    def metadata(self) -> dict[str, Any]:
        """nbgrader's marks of this cell."""
        marks = {
            "grade": self.points is not None and not self.task,
            "grade_id": self.name,
            "locked": self.locked,
            "schema_version": 3,
            "solution": self.solution,
            "task": self.task,
            "cell_type": self.kind,
        }
        if self.points is not None:
            marks["points"] = self.points
        if self.checksum is not None:
            marks["checksum"] = self.checksum
        return {"nbgrader": marks}


@dataclass(frozen=True)
class Notebook:
    """One notebook of an assignment.

    `exercise` is the one that all its graded cells ask for; None where some hold code of the teacher's own: such a
    notebook is nbgrader's to run.
    """

    name: str
    cells: tuple[SourceCell, ...]
    kernelspec: dict[str, Any] = field(default_factory=dict)
    exercise: Exercise | None = None

    @property
    def max_points(self) -> float:
        return sum(cell.points for cell in self.cells if cell.points is not None)


def fitted(notebook: Notebook) -> Notebook:
    """A notebook with the exercise that it asks for.

    Raises BadRequest where a cell asks for a check that there is not, or that gives more points than the cell.
    """
    graded = [cell for cell in notebook.cells if cell.points is not None and not cell.by_hand]
    asked = [cell.asked for cell in graded if cell.asked is not None and cell.asked.alone]
    owners = {each.owner for each in asked}
    if not graded or len(asked) < len(graded):
        return notebook
    found = {registry.owner(owner).name for owner in owners}
    if len(found) > 1:
        return notebook
    right = registry.find(found.pop())
    for cell in graded:
        _fits(notebook.name, cell, right)
    return replace(notebook, exercise=right)


def _fits(name: str, cell: SourceCell, right: Exercise) -> None:
    """Raises BadRequest if nbgrader could not write down what the cell's check gives."""
    check = cell.asked.check if cell.asked else None
    known = {each.name: each.points for each in right.checks}
    if check is not None and check not in known:
        raise BadRequest(f"{name}, cell {cell.name}: {right.name} has no check {check!r}; it has {', '.join(known)}")
    worth = right.max_points if check is None else known[check]
    if cell.points is not None and worth > cell.points:
        raise BadRequest(
            f"{name}, cell {cell.name}: has {cell.points:g} points and its check gives {worth:g}; make them equal in "
            "the source and run `nbgrader generate_assignment` again"
        )
