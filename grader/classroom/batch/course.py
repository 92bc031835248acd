"""The class's folders and its gradebook's address, as nbgrader's own config file says."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader import catalog
from grader.submission import BadRequest

CONFIG = "nbgrader_config.py"
_STRUCTURE = os.path.join("{nbgrader_step}", "{student_id}", "{assignment_id}")


@dataclass(frozen=True)
class Course:
    """Where nbgrader keeps a course. `folder` is the class's own: it holds `submitted` and what grading adds.

    `config` is nbgrader's configuration, a traitlets Config; `url` the gradebook's.
    """

    config: Any
    root: Path
    folder: Path
    course_id: str
    url: str
    excluded: frozenset[str] = frozenset()

    def step(self, name: str) -> Path:
        """The folder of one of nbgrader's steps: source, submitted, autograded, feedback."""
        return self.root / str(self._setting(f"{name}_directory", name))

    def place(self, name: str, student: str, assignment: str) -> Path:
        """The folder of one student's assignment in one of nbgrader's steps."""
        return self.step(name) / student / assignment

    def _setting(self, name: str, default: Any) -> Any:
        return self.config.CourseDirectory.get(name, default)

    @property
    def mode(self) -> int:
        """The permissions of files in `autograded`, as nbgrader sets them."""
        return 0o664 if self._setting("groupshared", False) else 0o444


def load(url: str | None = None) -> Course:
    """The course of nbgrader's config file in this folder, or else of the one that comes with the course.

    `url` (else $RANKUP_DB) is another gradebook than the file's. Raises BadRequest.
    """
    from traitlets.config.loader import PyFileConfigLoader

    places = [Path.cwd(), catalog.root()]
    folder = next((place for place in places if (place / CONFIG).is_file()), None)
    if folder is None:
        raise BadRequest(f"there is no {CONFIG} here or in {places[-1]}: run this in the course's folder")
    try:
        config = PyFileConfigLoader(CONFIG, path=str(folder)).load_config()
    except Exception as error:  # it is a program, and may do anything
        raise BadRequest(f"{folder / CONFIG} cannot be loaded ({type(error).__name__}: {error})") from None
    if config.CourseDirectory.get("directory_structure", _STRUCTURE) != _STRUCTURE:
        raise BadRequest(f"{folder / CONFIG}: directory_structure must be nbgrader's own, {_STRUCTURE}")
    return of(config, url or os.environ.get("RANKUP_DB"))


def of(config: Any, url: str | None = None) -> Course:
    """The course that nbgrader's configuration describes; `url` is another gradebook than its own."""
    settings = config.CourseDirectory
    root = Path(settings.get("root", Path.cwd()))
    submitted = root / str(settings.get("submitted_directory", "submitted"))
    address = url or settings.get("db_url", f"sqlite:///{root / 'gradebook.db'}")
    excluded = frozenset(filter(None, str(settings.get("student_id_exclude", "")).split(",")))
    return Course(config, root, submitted.parent, str(settings.get("course_id", "")), str(address), excluded)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the class for this process. Raises BadRequest while another one grades it.

    The lock ends with the process, however that ends.
    """
    path = folder / ".grading.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise BadRequest(f"{folder}: cannot be written ({error.strerror})") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadRequest(f"another run is grading this class ({folder}): wait until it is done") from None
        yield
    finally:
        os.close(lock)
