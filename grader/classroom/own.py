"""The learner's own copies of exercises, under work/: an update of the course never writes over them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from grader import catalog
from grader.submission import BadRequest

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOLDER = "work"
MARK = "rankup"  # in the metadata of a copy: which exercise it is of, and a hash of what it was copied from


@dataclass(frozen=True)
class Started:
    """A new copy, and where the one before it was put."""

    path: Path
    aside: Path | None = None


def home() -> Path:
    """The learner's folder, which holds work/: the checkout, for whoever works in it, or else the present folder."""
    root, here = catalog.root(), Path.cwd()
    return root if catalog.is_checkout() and here.is_relative_to(root) else here


def place(exercise: str) -> Path:
    """Where the learner's copy of an exercise is, or would be: here, or in the checkout where only that has one."""
    source = catalog.exercise_notebook(exercise)
    path = Path(FOLDER, source.parent.name, source.name)
    here, there = home() / path, catalog.root() / path
    return there if catalog.is_checkout() and there.exists() and not here.exists() else here


def start(exercise: str, fresh: bool = False) -> Started:
    """Copy the released notebook of an exercise to its place under work/, and never over anything.

    `fresh` keeps the copy that is there aside, under a numbered name. Raises BadRequest where one is there, or where
    nothing can be written.
    """
    source, path = catalog.exercise_notebook(exercise), place(exercise)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = _put_aside(path) if fresh and path.exists() else None
        with path.open("x", encoding="utf-8") as file:
            file.write(_copy(source, exercise))
    except FileExistsError:
        raise BadRequest(_there_already(exercise, path)) from None
    except OSError as error:
        raise BadRequest(f"{shown(path)}: cannot be written: {error.strerror}") from None
    return Started(path, aside)


def shown(path: Path) -> str:
    """A path as one types it here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def next_steps(started: Started, exercise: str) -> str:
    """What to tell a learner who has started an exercise."""
    kept = f"Your previous copy is kept as {shown(started.aside)}.\n" if started.aside else ""
    return (
        f"{kept}{shown(started.path)} is your own copy. Updates of the course do not change it.\n"
        f"  rankup lab {exercise}      opens it in JupyterLab\n"
        f"  rankup watch {exercise}    grades it each time you save\n"
        f"  rankup grade {exercise}    grades it once"
    )


def _put_aside(path: Path) -> Path:
    """Rename a copy to the first numbered name that is free."""
    for number in count(1):
        aside = path.with_stem(f"{path.stem}-{number}")
        try:
            aside.open("x").close()  # the name is ours: a rename alone would write over a file that is there
        except FileExistsError:
            continue
        return path.replace(aside)
    raise AssertionError("count() does not end")


def _copy(source: Path, exercise: str) -> str:
    import nbformat  # here, for it takes as long as all else of a short command

    notebook = nbformat.read(source, as_version=4)
    notebook.metadata[MARK] = {"exercise": exercise, "released": _hash(notebook)}
    return str(nbformat.writes(notebook)) + "\n"


def _hash(notebook: NotebookNode) -> str:
    """Of what a learner is given: the cells' kinds and sources."""
    given = json.dumps([(cell.cell_type, cell.source) for cell in notebook.cells])
    return hashlib.sha256(given.encode()).hexdigest()[:16]


def _there_already(exercise: str, path: Path) -> str:
    news = ""
    if has_changed(exercise, path):
        news = ". The course's notebook has changed since you started it"
    return (
        f"{shown(path)} is there already, and was left unchanged. `rankup lab {exercise}` opens it. "
        f"`rankup start {exercise} --fresh` keeps it as a backup and starts over{news}"
    )


def has_changed(exercise: str, path: Path) -> bool:
    """Whether the released notebook is another one than the copy was made of. No, where the copy does not say."""
    try:
        mark = json.loads(path.read_text(encoding="utf-8"))["metadata"][MARK]["released"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    import nbformat

    return bool(mark != _hash(nbformat.read(catalog.exercise_notebook(exercise), as_version=4)))
