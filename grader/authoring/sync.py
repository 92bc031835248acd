"""What an exercise's EXERCISE says, written where people read it: into its notebooks, and README's table.

In the notebook with the solution: title, chapter, minutes, difficulty, and a graded cell for each check with points.
Of a graded cell that is there, the function that it calls, and whether it is hidden and what it says of itself then,
are kept. The notebook for learners is that without solutions and hidden tests, as nbgrader makes it.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader import catalog, registry
from grader.exercise import Check, Exercise
from grader.submission import BadRequest

LEVELS = {1: "easy", 2: "medium", 3: "hard"}
HIDDEN = "# {}: check({}) runs this check, too\n### BEGIN HIDDEN TESTS\n{}\n### END HIDDEN TESTS"
IMPORT = "from grader import check\n\n"
Notebook = dict[str, Any]
Cell = dict[str, Any]


def sync(names: Sequence[str], dry: bool = False) -> list[Path]:
    """Write what is not as it must be, or with `dry` nothing. Returns which files. Raises BadRequest."""
    changed = []
    for name in names or registry.names():
        source = catalog.solution_notebook(name)
        made = synced(registry.find(name), read(source))
        released = released_notebook(source)
        for path, notebook in ((source, made), (released, release(made))):
            changed += _written(path, text(notebook), dry)
    readme = catalog.root() / "README.md"
    if readme.exists():
        changed += _written(readme, table(readme.read_text()), dry)
    return changed


def _written(path: Path, new: str, dry: bool) -> list[Path]:
    if path.exists() and path.read_text() == new:
        return []
    if not dry:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(new)
    return [path]


def released_notebook(source: Path) -> Path:
    """Where the notebook for learners is: in exercises/, of a pack beside the one with the solution."""
    if source.name == "solution.ipynb":
        return source.with_name(f"{source.parent.name}.ipynb")
    return source.parents[2] / "exercises" / source.parent.name / source.name


def read(path: Path) -> Notebook:
    """A notebook of ours. Raises BadRequest."""
    try:
        found = json.loads(path.read_text())
        if found["cells"][0]["cell_type"] == "markdown":
            return dict(found)
    except (ValueError, LookupError, TypeError):
        pass
    raise BadRequest(f"{path}: is not a notebook that begins with a statement")


def text(notebook: Notebook) -> str:
    """As nbformat writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def synced(exercise: Exercise, notebook: Notebook) -> Notebook:
    """The notebook with the solution, as EXERCISE says."""
    made = copy.deepcopy(notebook)
    cells: list[Cell] = made["cells"]
    rest, level = _source(cells[0]).split("\n")[3:], LEVELS[exercise.difficulty]
    head = [f"# {exercise.title}", "", f"*Chapter {exercise.chapter} · about {exercise.minutes} minutes · {level}*"]
    _put(cells[0], "\n".join([*head, *rest]))
    graded = [cell for cell in cells if marks(cell).get("grade")]
    first = cells.index(graded[0]) if graded else len(cells)
    kept = [cell for cell in cells if not marks(cell).get("grade")]
    new = [_graded(exercise, check, graded) for check in exercise.checks]
    if not any("BEGIN HIDDEN TESTS" in _source(cell) for cell in new):
        source = _source(new[-1])
        whole = re.sub(r'check\((\w+), "[^"]*"(.*)\)', r"\1\2", source)
        _put(new[-1], HIDDEN.format(exercise.checks[-1].title, whole, source))
    _put(new[0], IMPORT + _source(new[0]))
    made["cells"] = [*kept[:first], *new, *kept[first:]]
    return made


def _graded(exercise: Exercise, check: Check, there: list[Cell]) -> Cell:
    """The graded cell of a check."""
    call = re.compile(rf'check\((\w+), "{re.escape(check.name)}"')
    old = next((cell for cell in there if call.search(_source(cell))), None)
    found = call.search(_source(old)) if old else None
    function = found[1] if found and found[1] in exercise.function_names else exercise.function_names[0]
    owners = [other for other in registry.catalogue() if function in other.function_names]
    more = f', exercise="{exercise.name}"' if len(owners) > 1 else ""
    source = f'check({function}, "{check.name}"{more})'
    hidden = re.search(r"^# (.*): check\(.*\) runs this check, too\n### BEGIN HIDDEN", _source(old or {}), re.MULTILINE)
    if hidden:
        source = HIDDEN.format(hidden[1], f"{function}{more}", source)
    cell = copy.deepcopy(old) if old else _new_cell(f"check-{check.name}")
    cell["metadata"]["nbgrader"]["points"] = check.points
    _put(cell, source)
    return cell


def _new_cell(name: str) -> Cell:
    nbgrader = {"grade": True, "grade_id": name, "locked": True, "points": 0}
    nbgrader |= {"schema_version": 3, "solution": False, "task": False}
    metadata = {"nbgrader": nbgrader}
    return {"cell_type": "code", "execution_count": None, "id": name, "metadata": metadata, "outputs": [], "source": []}


def marks(cell: Cell) -> dict[str, Any]:
    """What nbgrader knows of a cell."""
    return dict(cell["metadata"].get("nbgrader", {}))


def _source(cell: Cell) -> str:
    return "".join(cell.get("source", ()))


def _put(cell: Cell, source: str) -> None:
    """A cell's source, as nbformat writes it."""
    if source != _source(cell):
        cell["source"] = source.splitlines(keepends=True)


def release(notebook: Notebook) -> Notebook:
    """The notebook for learners."""
    import nbformat
    from nbgrader import preprocessors

    made, resources = nbformat.reads(text(notebook), as_version=4), {"nbgrader": {"notebook": ""}}
    steps = ("LockCells", "ClearSolutions", "ClearOutput", "ClearHiddenTests", "ClearMarkScheme", "ComputeChecksums")
    for step in steps:
        made, resources = getattr(preprocessors, step)().preprocess(made, resources)
    return dict(json.loads(nbformat.writes(made)))


def table(readme: str) -> str:
    """README, with every exercise in its chapter's row: in the order that is there, new ones behind."""
    ours = [name for name in registry.names() if catalog.solution_notebook(name).name != "solution.ipynb"]
    by_chapter = {chapter: [name for name in ours if registry.find(name).chapter == chapter] for chapter in _chapters()}
    lines = readme.split("\n")
    for number, line in enumerate(lines):
        row = re.fullmatch(r"(\| (\d\d) .* \| )(.*) \|", line)
        if row and by_chapter.get(row[2]):
            there = by_chapter.pop(row[2])
            kept = [name for name in row[3].split(", ") if name in there]
            lines[number] = f"{row[1]}{', '.join([*kept, *(name for name in there if name not in kept)])} |"
    missing = next((names for names in by_chapter.values() if names), None)
    if missing:
        raise BadRequest(
            f"README's table has no row for the chapter of {missing[0]}: add '| NN Title | {missing[0]} |'"
        )
    return "\n".join(lines)


def _chapters() -> list[str]:
    return [chapter.id for chapter in catalog.chapters()]
