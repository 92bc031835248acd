"""Notebooks that hold graded code of the teacher's own: nbgrader runs those, in the kernel that its config names."""

from __future__ import annotations

import glob
import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from grader.classroom.batch import publish
from grader.classroom.batch.course import Course
from grader.classroom.batch.tasks import Task


class KernelFailed(Exception):  # noqa: N818 - reads as what happened
    """nbgrader could not grade a notebook, and what it said last."""


def autograde(course: Course, assignment: str, task: Task, others: list[str]) -> None:
    """Have nbgrader run one student's notebook and write scores, graded notebook and feedback.

    It is given a copy that was read and put right here. `others` are the assignment's other notebooks. Raises
    KernelFailed and OSError.
    """
    assert task.whole is not None
    student, notebook, timestamp = task.record.student, task.notebook, task.handed.timestamp
    with tempfile.TemporaryDirectory(prefix="rankup-") as folder, _listening() as said:
        place = Path(folder, student, assignment)
        place.mkdir(parents=True)
        nbformat.write(publish.graded_notebook(task.whole, notebook, None), place / f"{notebook.name}.ipynb")
        for name in others:
            (place / f"{name}.ipynb").touch()  # nbgrader takes their points away where it finds none
        if timestamp:
            (place / "timestamp.txt").write_text(timestamp)
        for converter, submitted in ((Autograde, folder), (GenerateFeedback, str(course.step("submitted")))):
            config = Config(course.config)
            config.CourseDirectory.root = str(course.root)
            config.CourseDirectory.db_url = course.url
            config.CourseDirectory.submitted_directory = submitted
            config.CourseDirectory.assignment_id = assignment
            config.CourseDirectory.student_id = glob.escape(student)
            config.CourseDirectory.notebook_id = glob.escape(notebook.name)
            try:
                run = converter(coursedir=CourseDirectory(config=config), config=config)
                run.force = True
                run.start()
            except (Exception, SystemExit) as error:  # it lets through whatever its parts raise
                raise KernelFailed(f"nbgrader: {said[0] if said else error}") from None


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Collect the errors that nbgrader logs, one line each, instead of showing them: they may quote the learner."""
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines = record.getMessage().strip().splitlines()
            if lines and record.levelno >= logging.ERROR and not lines[-1].startswith("There was an error"):
                said.append(lines[-1])

    handler, logger = Keep(), logging.getLogger("traitlets")
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
