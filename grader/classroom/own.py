"""The learner's own copies of exercises, all under one work/: an update of the course never writes over them."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from grader import catalog, progress, registry
from grader.submission import BadRequest

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOLDER = "work"
_HOME = "home"  # a file next to the learner's progress, which names the folder that was last begun in
MARK = "rankup"  # in the metadata of a copy: which exercise it is of, and a hash of what it was copied from


@dataclass(frozen=True)
class Started:
    """A new copy, and where the one before it was put."""

    path: Path
    aside: Path | None = None


def home() -> Path:
    """The learner's folder, which holds work/: the checkout, for those who are in it; else the present folder or the
    nearest above it with copies; else the one that was last begun in, or the checkout, if it has copies; else the
    present folder. So, once there is a copy, it does not depend on where a command is typed."""
    root, here = catalog.root(), Path.cwd()
    if catalog.is_checkout() and here.is_relative_to(root):
        return root
    used = next(filter(_is_used, [here, *here.parents, *_last()]), None)
    return used or (root if catalog.is_checkout() and _has_copies(root) else here)


def _has_copies(folder: Path) -> bool:
    return any(path.stem in registry.folders() for path in (folder / FOLDER).glob("*/*.ipynb"))


def _is_used(folder: Path) -> bool:
    """Whether there are copies of exercises, or chapters that `rankup lab` put there."""
    return _has_copies(folder) or (folder / "course" / "00-start-here.ipynb").is_file()


def _last() -> list[Path]:
    """Where a copy was started, or chapters were put, last; none if that is not known."""
    try:
        return [Path((progress.data_folder() / _HOME).read_text(encoding="utf-8"))]
    except (OSError, ValueError):
        return []


def remember(folder: Path) -> None:
    """That this is the learner's folder from now on, also for commands that are typed elsewhere."""
    with contextlib.suppress(OSError):  # nothing can be remembered: copies are then looked for from the present folder
        file = progress.data_folder() / _HOME
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(folder), encoding="utf-8")


def place(exercise: str, root: Path | None = None) -> Path:
    """Where the learner's copy of an exercise is, or would be; `root` holds work/, home() if left out."""
    source = catalog.exercise_notebook(exercise)
    return (root or home()) / FOLDER / source.parent.name / source.name


def start(exercise: str, fresh: bool = False, here: bool = False) -> Started:
    """Copy the released notebook of an exercise to its place under work/, and never over anything.

    `fresh` keeps the copy that is there aside, under a numbered name; `here` is for the present folder, wherever other
    copies are. Raises BadRequest where one is there, or where nothing can be written.
    """
    root = Path.cwd() if here else home()
    source, path = catalog.exercise_notebook(exercise), place(exercise, root)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = _put_aside(path) if fresh and path.exists() else None
        with path.open("x", encoding="utf-8") as file:
            file.write(_copy(source, exercise))
    except FileExistsError:
        raise BadRequest(_there_already(exercise, path)) from None
    except OSError as error:
        raise BadRequest(f"{shown(path)}: cannot be written: {error.strerror}") from None
    remember(root)
    return Started(path, aside)


def shown(path: Path) -> str:
    """A path as one types it here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def next_steps(started: Started, exercise: str) -> str:
    """What to tell a learner who has started an exercise."""
    kept = f"Your previous copy is kept as {shown(started.aside)}.\n" if started.aside else ""
    away = not started.path.is_relative_to(Path.cwd())
    why = f"Your other copies are there, too. `rankup start {exercise} --here` makes one in this folder.\n"
    return (
        f"{kept}{shown(started.path)} is your own copy. Updates of the course do not change it.\n"
        f"{why if away else ''}"
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
