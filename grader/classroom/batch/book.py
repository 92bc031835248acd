"""nbgrader's gradebook: read and written by its own classes, from one process, over one connection."""

from __future__ import annotations

import functools
import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import sqlalchemy
from nbformat.notebooknode import NotebookNode, from_dict
from nbgrader import api, preprocessors, utils
from sqlalchemy.exc import InterfaceError, OperationalError, SAWarning, SQLAlchemyError

from grader.classroom import cells as graded_cells
from grader.classroom.batch import assignment
from grader.classroom.batch.assignment import Notebook, SourceCell
from grader.classroom.batch.course import Course
from grader.submission import BadRequest, Unreadable, parse

P = ParamSpec("P")
R = TypeVar("R")


class NotWritten(Exception):  # noqa: N818 - reads as what happened
    """The gradebook did not take something, and why; `passing` if it may take it later."""

    def __init__(self, message: str, passing: bool = True) -> None:
        super().__init__(message)
        self.passing = passing


def _guarded(method: Callable[Concatenate[Book, P], R]) -> Callable[Concatenate[Book, P], R]:
    """Without nbgrader's warnings, and with NotWritten for whatever the database complains about."""

    @functools.wraps(method)
    def guarded(self: Book, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)
            try:
                return method(self, *args, **kwargs)
            except (SQLAlchemyError, api.InvalidEntry, api.MissingEntry, UnicodeError) as error:
                self._gradebook.db.rollback()
                cause = error.__context__ if isinstance(error, api.InvalidEntry) else error  # what nbgrader wrapped
                passing = isinstance(cause, (OperationalError, InterfaceError))
                raise NotWritten(f"the gradebook cannot be used ({_sentence(cause or error)})", passing) from None

    return guarded


def _sentence(error: BaseException) -> str:
    """What a database said, in one line."""
    cause = getattr(error, "orig", None) or error
    lines = str(cause).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(cause).__name__


class Score(NamedTuple):
    """What the gradebook has of one student's notebook: points less a penalty, and whether a person must look at it."""

    points: float
    by_hand: bool


class Book:
    """One class's gradebook. Raises BadRequest if it cannot be opened; close it."""

    def __init__(self, course: Course, name: str) -> None:
        self._course, self._assignment = course, name
        for noisy in ("traitlets", "tornado.application"):
            logging.getLogger(noisy).addHandler(logging.NullHandler())
        try:
            self.name = sqlalchemy.make_url(course.url).render_as_string(hide_password=True)
            self._gradebook = api.Gradebook(course.url, course.course_id)
        except ModuleNotFoundError as error:
            raise BadRequest(f"the gradebook needs the module {error.name}: install it") from None
        except SQLAlchemyError as error:
            raise BadRequest(f"the gradebook cannot be opened: {_sentence(error)}") from None
        self._begun: dict[tuple[str, str], bool] = {}
        self._saver = preprocessors.SaveAutoGrades(config=course.config)
        self._saver.gradebook = _AtOnce(self._gradebook)

    @_guarded
    def notebooks(self) -> list[Notebook]:
        """What the assignment asks, by name. Raises BadRequest if nbgrader does not know it."""
        try:
            found = self._gradebook.find_assignment(self._assignment)
        except api.MissingEntry:
            known = ", ".join(each.name for each in self._gradebook.assignments) or "none"
            raise BadRequest(
                f"the gradebook has no assignment {self._assignment!r} (it has {known}): run "
                f"`nbgrader generate_assignment {self._assignment}` first"
            ) from None
        return sorted((assignment.fitted(self._notebook(each)) for each in found.notebooks), key=lambda each: each.name)

    @_guarded
    def notebook(self, name: str) -> Notebook:
        """One notebook's cells, whatever they ask for."""
        return self._notebook(self._gradebook.find_notebook(name, self._assignment))

    def _notebook(self, found: Any) -> Notebook:
        points = {cell.name: cell.max_score for cell in (*found.grade_cells, *found.task_cells)}
        solutions = {cell.name for cell in found.solution_cells}
        tasks = {cell.name for cell in found.task_cells}
        cells = []
        for cell in found.source_cells:
            plain = SourceCell(
                cell.name,
                cell.cell_type,
                cell.source or "",
                "",
                bool(cell.locked),
                cell.checksum,
                points.get(cell.name),
                cell.name in solutions,
                cell.name in tasks,
                graded_cells.asked(cell.source or "") if cell.name in points else None,
            )
            cells.append(replace(plain, released=self._released(plain)))
        order = self._order(found.name)
        cells.sort(key=lambda cell: order.get(cell.name, len(order)))
        return Notebook(found.name, tuple(cells), json.loads(found.kernelspec or "{}"))

    def _order(self, notebook: str) -> dict[str, int]:
        """Where each cell stands in the teacher's notebook; a database keeps no order."""
        source = self._course.place("source", "", self._assignment) / f"{notebook}.ipynb"
        try:
            cells, _ = parse(source.read_bytes())
        except (OSError, Unreadable):
            return {}
        return {cell.grade_id: number for number, cell in enumerate(cells)}

    def _released(self, cell: SourceCell) -> str:
        """The text of a cell as learners got it."""
        node = from_dict({"cell_type": cell.kind, "source": cell.source, "metadata": cell.metadata, "outputs": []})
        for clear in (preprocessors.ClearHiddenTests, preprocessors.ClearMarkScheme):
            try:
                node, _ = clear(config=self._course.config).preprocess_cell(node, {}, 0)
            except (RuntimeError, ValueError):  # marks that do not match: nbgrader has said so long ago
                continue
        return str(node.source)

    @_guarded
    def begin(self, student: str, timestamp: str) -> bool:
        """Make sure that the student and the submission are known, as nbgrader does; whether it was late."""
        if (student, timestamp) in self._begun:
            return self._begun[student, timestamp]
        self._gradebook.update_or_create_student(student)
        when = parsed(timestamp)
        given = {} if when is None else {"timestamp": when}
        submission = self._gradebook.update_or_create_submission(self._assignment, student, **given)
        late = self._begun[student, timestamp] = bool(submission.total_seconds_late > 0)
        return late

    @_guarded
    def save(self, student: str, notebook: str, graded: NotebookNode) -> None:
        """Write down what the cells' outputs give, as nbgrader's autograde does."""
        saver = self._saver
        saver.notebook_id, saver.assignment_id, saver.student_id = notebook, self._assignment, student
        for number, cell in enumerate(graded.cells):
            saver.preprocess_cell(cell, {}, number)
        self._gradebook.db.commit()
        self._penalize(student, notebook, graded)

    def _penalize(self, student: str, notebook: str, graded: NotebookNode) -> None:
        submission = self._gradebook.find_submission(self._assignment, student)
        entry = self._gradebook.find_submission_notebook(notebook, self._assignment, student)
        if submission.total_seconds_late > 0 or entry.late_submission_penalty is not None:
            self._gradebook.db.commit()  # the next one writes through a connection of its own
            about = {"notebook": notebook, "assignment": self._assignment, "student": student}
            late = preprocessors.AssignLatePenalties(config=self._course.config)
            late.preprocess(graded, {"nbgrader": {**about, "db_url": self._course.url}})

    @_guarded
    def zero(self, student: str, notebook: str) -> None:
        """No points, and nothing to look at: what nbgrader does with a notebook that was not handed in."""
        self._all(student, notebook, 0.0, by_hand=False)

    @_guarded
    def leave(self, student: str, notebook: str) -> None:
        """No points, and a person has to look at it: it could not be graded."""
        self._all(student, notebook, None, by_hand=True)

    def _all(self, student: str, notebook: str, score: float | None, *, by_hand: bool) -> None:
        entry = self._gradebook.find_submission_notebook(notebook, self._assignment, student)
        for grade in entry.grades:
            grade.auto_score, grade.needs_manual_grade = score, by_hand
        self._gradebook.db.commit()

    @_guarded
    def scores(self) -> dict[tuple[str, str], Score]:
        """What the gradebook has of every student's notebooks now, with what people changed by hand."""
        session = self._gradebook.db
        session.rollback()  # see what was written through other connections
        rows = (
            session.query(
                api.Student.id,
                api.Notebook.name,
                api.SubmittedNotebook.score,
                api.SubmittedNotebook.late_submission_penalty,
                api.SubmittedNotebook.needs_manual_grade,
            )
            .select_from(api.SubmittedNotebook)
            .join(api.Notebook, api.Notebook.id == api.SubmittedNotebook.notebook_id)
            .join(api.SubmittedAssignment, api.SubmittedAssignment.id == api.SubmittedNotebook.assignment_id)
            .join(api.Student, api.Student.id == api.SubmittedAssignment.student_id)
            .join(api.Assignment, api.Assignment.id == api.SubmittedAssignment.assignment_id)
            .filter(api.Assignment.name == self._assignment)
        )
        return {
            (student, name): Score((score or 0.0) - (penalty or 0.0), bool(by_hand))
            for student, name, score, penalty, by_hand in rows
        }

    def close(self) -> None:
        """Give the connection back."""
        self._gradebook.close()


class _AtOnce:
    """A gradebook for nbgrader's own step that writes all scores of a notebook or none: it would commit each."""

    def __init__(self, gradebook: Any) -> None:
        self.find_grade, self.find_comment = gradebook.find_grade, gradebook.find_comment
        self.db = SimpleNamespace(commit=gradebook.db.flush)


def parsed(timestamp: str) -> datetime | None:
    """When something was handed in, in UTC; None where the text is no date."""
    try:
        return utils.parse_utc(timestamp) if timestamp else None
    except (ValueError, OverflowError, TypeError):
        return None
