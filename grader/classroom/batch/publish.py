"""What follows from a record: the graded notebook, the gradebook's scores and the feedback page."""

from __future__ import annotations

import contextlib
import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from grader.classroom import cells as graded_cells
from grader.classroom.batch import collect
from grader.classroom.batch.assignment import Notebook
from grader.classroom.batch.book import Book
from grader.classroom.batch.collect import Handed
from grader.classroom.batch.course import Course
from grader.classroom.batch.records import Record, write_whole
from grader.classroom.batch.whole import Whole
from grader.classroom.pages import feedback
from grader.verdict import CheckResult, Diagnosis, Verdict

_NEW = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}


class Publisher:
    """Writes what others read. Everything may be written again: what comes out is the same."""

    def __init__(self, course: Course, book: Book, assignment: str) -> None:
        self.course, self.book, self.assignment = course, book, assignment

    def graded_file(self, record: Record) -> Path:
        return self.course.place("autograded", record.student, self.assignment) / f"{record.notebook}.ipynb"

    def page(self, record: Record) -> Path:
        return self.course.place("feedback", record.student, self.assignment) / f"{record.notebook}.html"

    def is_written(self, record: Record) -> bool:
        """Whether everything that follows from a record is there."""
        return record.written == self.book.name and record.points is not None and self.is_whole(record)

    def is_whole(self, record: Record) -> bool:
        """Whether the graded notebook and the page are there."""
        return self.graded_file(record).is_file() and self.page(record).is_file()

    def publish(self, record: Record, handed: Handed, notebook: Notebook, whole: Whole | None) -> Record:
        """Write it all; the record, with whether it was late. Raises OSError or NotWritten."""
        late = self.book.begin(record.student, handed.timestamp)
        verdict = record.whole_verdict()
        if verdict is not None:
            if whole is None:
                raise OSError(errno.ESTALE, "the notebook was changed while it was graded")
            graded = graded_notebook(whole, notebook, verdict)
            write_whole(self.graded_file(record), nbformat.writes(graded).encode(), self.course.mode)
            self._pass_on(record, handed)
            self.book.save(record.student, record.notebook, graded)
            self._feedback(record, handed, verdict, whole.source)
        elif record.points is not None:
            self._pass_on(record, handed)  # nbgrader ran it, and has written everything else
        elif record.missing:
            self.book.zero(record.student, record.notebook)
            self._remove(record)
        else:
            self.book.leave(record.student, record.notebook)
            self._remove(record)
            if notebook.exercise is not None:
                self._feedback(record, handed, _no_verdict(record, notebook), "")
        return replace(record, late=late, timestamp=handed.timestamp)

    def _feedback(self, record: Record, handed: Handed, verdict: Verdict, source: str) -> None:
        note = " ".join(f"{odd[:1].upper()}{odd[1:]}." for odd in record.odd)
        page = feedback.page(verdict, source, learner=printable(record.student), when=handed.timestamp, note=note)
        write_whole(self.page(record), page.encode("utf-8", errors="replace"), 0o644)

    def _pass_on(self, record: Record, handed: Handed) -> None:
        """Copy what was handed in beside the notebooks, as nbgrader does: its time, pictures."""
        for name, data in collect.others(handed):
            write_whole(self.graded_file(record).parent / name, data, self.course.mode)

    def _remove(self, record: Record) -> None:
        """What an earlier submission left would tell of points that there are none of any more."""
        for path in (self.graded_file(record), self.page(record)):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def graded_notebook(whole: Whole, notebook: Notebook, verdict: Verdict | None) -> Any:
    """The learner's notebook as nbgrader keeps it, with the service's record in the graded cells."""
    made = []
    for number, (cell, mine) in enumerate(whole.cells):
        node = _NEW[cell.kind](cell.source, metadata=mine.metadata if mine else {}, id=f"cell-{number}")
        if cell.attachments:
            node.attachments = cell.attachments
        if verdict is not None and mine is not None and mine.asked is not None and mine.points is not None:
            graded_cells.write_record(node, verdict, mine.asked.check)
        made.append(node)
    about = {"kernelspec": notebook.kernelspec} if notebook.kernelspec else {}
    return new_notebook(cells=made, metadata=about)


def _no_verdict(record: Record, notebook: Notebook) -> Verdict:
    """For the learner's page: no points in any check, and why."""
    assert notebook.exercise is not None
    why = Diagnosis("crash", f"Not graded: {record.problem}.")
    checks = (CheckResult(c.name, c.title, 0.0, c.points, "error", why) for c in notebook.exercise.checks)
    return Verdict(notebook.exercise.name, tuple(checks), record.seed, 0.0, ())


def printable(text: str) -> str:
    """A stranger's text without anything that a terminal or a page would obey."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
