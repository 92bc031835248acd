"""A submitted notebook made whole before nbgrader looks at it: what its author wrote is kept, its marks are not."""

from __future__ import annotations

from typing import Any

from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

_NEW = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}


class Restore(NbGraderPreprocessor):  # type: ignore[misc]
    """Makes a submitted notebook whole: well-formed cells, and the instructor's marks on them, as the gradebook has
    them. Graded cells that were removed come back."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        where = resources["nbgrader"]
        with Gradebook(where["db_url"]) as book:
            notebook = book.find_notebook(where["notebook"], where["assignment"])
            marks = _marks(notebook)
            sources = {cell.name: cell.source for cell in notebook.source_cells}
        nb.nbformat, nb.nbformat_minor = 4, 5
        nb.metadata = type(nb)()
        found: set[str] = set()
        whole = []
        for cell in reversed([cell for cell in map(_whole, nb.get("cells", [])) if cell is not None]):
            name = cell.metadata.nbgrader.grade_id if "nbgrader" in cell.metadata else None
            cell.metadata.pop("nbgrader", None)
            if name in marks and name not in found:  # the last one of several, as nbgrader has it
                found.add(name)
                cell.metadata["nbgrader"] = marks[name]
            whole.append(cell)
        nb.cells = whole[::-1]
        for name, mark in marks.items():
            if mark["grade"] and not mark["solution"] and name not in found:
                self.log.warning("The graded cell %s was removed from the notebook: it is put back.", name)
                nb.cells.append(_NEW[mark["cell_type"]](sources[name], metadata={"nbgrader": mark}))
        return nb, resources


def _marks(notebook: Any) -> dict[str, dict[str, Any]]:
    """nbgrader's metadata of every cell of a notebook, from the gradebook."""
    points = {cell.name: float(cell.max_score) for cell in (*notebook.grade_cells, *notebook.task_cells)}
    graded = {cell.name for cell in notebook.grade_cells}
    solutions = {cell.name for cell in notebook.solution_cells}
    tasks = {cell.name for cell in notebook.task_cells}
    return {
        cell.name: {
            "grade": cell.name in graded,
            "grade_id": cell.name,
            "locked": bool(cell.locked),
            "schema_version": 3,
            "solution": cell.name in solutions,
            "task": cell.name in tasks,
            "cell_type": cell.cell_type,
            "checksum": cell.checksum,
            **({"points": points[cell.name]} if cell.name in points else {}),
        }
        for cell in notebook.source_cells
    }


def _whole(cell: Any) -> Any:
    """A cell with nothing of the submitted one but type, text and nbgrader's name for it; None if it is no cell."""
    if not isinstance(cell, dict) or cell.get("cell_type") not in _NEW:
        return None
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    if not isinstance(source, str):
        return None
    new = _NEW[cell["cell_type"]](source)
    pictures = cell.get("attachments")
    if cell["cell_type"] == "markdown" and _are_pictures(pictures):
        new.attachments = pictures
    metadata = cell.get("metadata")
    mark = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    name = mark.get("grade_id") if isinstance(mark, dict) else None
    if isinstance(name, str):
        new.metadata["nbgrader"] = type(new)(grade_id=name)
    return new


def _are_pictures(attachments: Any) -> bool:
    """Whether it is {name: {MIME type: base64}} for pictures only."""
    return isinstance(attachments, dict) and all(
        isinstance(data, dict)
        and all(kind.startswith("image/") and isinstance(text, str) for kind, text in data.items())
        for data in attachments.values()
    )
