"""What became of a class, notebook by notebook, for the terminal and the overview pages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from grader.classroom.batch.assignment import Notebook
from grader.classroom.batch.publish import Publisher
from grader.classroom.batch.records import Record
from grader.classroom.batch.summary import WRITTEN_NOT, Remark, told
from grader.classroom.batch.tasks import Task
from grader.classroom.check import MIME
from grader.classroom.pages.overview import ClassResult, Row

Key = tuple[str, str]


class Results:
    """Every student's record of every notebook, as the run goes on.

    `scores` are the gradebook's, `unwritten` says why what was graded is not in it. `left_out` are the notebooks that
    nobody handed in; `several` says whether more than one is left.
    """

    def __init__(self, publisher: Publisher, plan: Sequence[Task]) -> None:
        self.publisher = publisher
        self.tasks: dict[Key, Task] = {}
        self.scores: dict[Key, float] = {}
        self.unwritten: dict[Key, str] = {}
        self.notebooks = list({task.notebook.name: task.notebook for task in plan}.values())
        for task in plan:
            self.put(task)
        handed_in = {task.notebook.name for task in plan if task.record.file}
        names = {notebook.name for notebook in self.notebooks}
        self.left_out = sorted(names - handed_in) if handed_in else []
        self.several = len(names) - len(self.left_out) > 1

    def put(self, task: Task) -> None:
        """Note what a task has come to; the pictures are not needed for that."""
        self.tasks[task.key] = replace(task, record=task.record.without_pictures(), whole=None)

    @property
    def complete(self) -> bool:
        """Whether everything was graded, and is written down."""
        return not self.unwritten and all(task.record.settled for task in self.tasks.values())

    def shown(self) -> Iterator[Task]:
        """All but the notebooks that nobody handed in."""
        return filter(self.is_shown, self.tasks.values())

    def is_shown(self, task: Task) -> bool:
        """Whether anybody handed in that notebook."""
        return task.notebook.name not in self.left_out

    def row(self, task: Task) -> Row:
        """One student's result."""
        record = task.record
        points = self.scores.get(task.key, record.points or 0.0)
        return Row(
            record.student, points, task.notebook.max_points, self._kinds(record), self._problem(record),
            record.seconds, record.late,
        )  # fmt: skip

    def _problem(self, record: Record) -> str:
        if record.missing:
            return record.odd[0]
        why = self.unwritten.get((record.student, record.notebook), "")
        return record.problem or (f"{WRITTEN_NOT}: {why}; run the same command again" if why else "")

    def _kinds(self, record: Record) -> tuple[tuple[str, str, str], ...]:
        """What points were lost to: check, kind, sentence."""
        verdict = record.whole_verdict()
        if verdict is not None:
            lost = [check for check in verdict.checks if check.status != "pass" and check.diagnosis is not None]
            return tuple((c.name, c.diagnosis.kind, c.diagnosis.message) for c in lost if c.diagnosis)
        if record.points is None:
            return ()
        return _losses_in(self.publisher.graded_file(record))

    def by_notebook(self, assignment: str, seconds: float, engine: str) -> list[tuple[Notebook, ClassResult]]:
        """A result for each notebook that anybody handed in."""
        rows: dict[str, list[Row]] = {}
        notebooks: dict[str, Notebook] = {}
        for task in self.shown():
            notebooks[task.notebook.name] = task.notebook
            rows.setdefault(task.notebook.name, []).append(self.row(task))
        return [
            (notebooks[name], ClassResult(assignment, name, tuple(rows[name]), seconds, engine))
            for name in sorted(rows)
        ]

    def remarks(self) -> list[Remark]:
        """What a person should look at, what could not be graded first."""
        said = []
        for task in self.shown():
            record = task.record
            problem = "" if record.missing else self._problem(record)
            where = f"{record.notebook}: " if self.several else ""
            if problem:
                said.append(Remark(record.student, where + told(problem), bad=True))
            if record.odd:
                said.append(Remark(record.student, where + "; ".join(record.odd)))
        return sorted(said, key=lambda remark: not remark.bad)


def _losses_in(path: Path) -> tuple[tuple[str, str, str], ...]:
    """What check() said of lost points in a notebook that nbgrader ran: check, kind, sentence."""
    found = []
    try:
        for cell in json.loads(path.read_bytes())["cells"]:
            for output in cell.get("outputs", []) if cell["metadata"].get("nbgrader") else []:
                for check in output.get("data", {}).get(MIME, []):
                    said = check["diagnosis"]
                    found += [(str(check["name"]), str(said["kind"]), str(said["message"]))] if said else []
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()
    return tuple(found)
