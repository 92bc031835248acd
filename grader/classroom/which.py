"""Which exercise and which file a learner means, who says as little as is needed."""

from __future__ import annotations

from pathlib import Path

from grader import catalog, progress, registry, submission
from grader.classroom import own
from grader.submission import BadRequest, Submission

_NOTEBOOK = ".ipynb"


def meant(exercise: str, file: Path | None) -> tuple[str, Path]:
    """The exercise and the file of `rankup grade EXERCISE FILE`, `rankup grade EXERCISE` (one's own copy) and
    `rankup grade FILE`, which says itself what it is of. Raises BadRequest."""
    if file is None and Path(exercise).suffix in (".py", _NOTEBOOK):
        file = Path(exercise)
        exercise = _of(file)
    name = registry.find(exercise).name
    if file is None:
        file = own.place(name)
        if not file.exists():
            raise BadRequest(f"you have no copy of {name} yet. `rankup start {name}` makes one")
        return name, Path(own.shown(file))
    told = _mark(file)
    if told in registry.folders() and told != name:
        raise BadRequest(f"{file} is the notebook of {told}. To grade it: rankup grade {told} {file}")
    return name, file


def failed_last(exercise: str) -> list[str]:
    """The checks that failed when they were graded last. Raises BadRequest where there are none."""
    failed = progress.failed(exercise)
    names = [check.name for check in registry.find(exercise).checks if check.name in failed]
    if not names:
        raise BadRequest(f"no check of {exercise} has failed yet; leave --only-failed out")
    return names


def is_stub(exercise: str, handed_in: Submission) -> bool:
    """Whether this is what was given out, and nothing has been written yet; no, where nothing is given out."""
    try:
        notebook = catalog.exercise_notebook(exercise)
    except BadRequest:
        return False
    cells, _ = submission.parse(notebook.read_bytes())
    given, _ = submission.graded(cells, registry.find(exercise).function_names)
    return handed_in.source.split() == given.split()


def _of(file: Path) -> str:
    """The exercise that a file is of: a copy made by `rankup start` says it, others by their names."""
    if not file.exists():
        raise BadRequest(f"{file}: no such file")
    for name in (_mark(file), file.stem):
        if name in registry.folders():
            return name
    raise BadRequest(f"{file} does not say which exercise it is of. Name it: rankup grade EXERCISE {file}")


def _mark(file: Path) -> str:
    """The exercise that `rankup start` has noted in a notebook, or nothing."""
    if file.suffix != _NOTEBOOK:
        return ""
    try:
        if file.stat().st_size > submission.MOST_BYTES:
            return ""
        mark = submission.loaded(file.read_bytes())["metadata"][own.MARK]["exercise"]
    except (OSError, submission.Unreadable, KeyError, TypeError):  # what is wrong with it is said when it is read
        return ""
    return mark if isinstance(mark, str) else ""
