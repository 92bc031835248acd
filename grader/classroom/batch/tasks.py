"""What is to be done about each notebook: nothing, write something anew, or grade it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from grader.classroom.batch import collect, whole
from grader.classroom.batch.assignment import Notebook
from grader.classroom.batch.collect import Handed
from grader.classroom.batch.pool import Job
from grader.classroom.batch.records import Journal, Record
from grader.classroom.batch.whole import Whole
from grader.classroom.version import version
from grader.submission import Unreadable, defines


@dataclass(frozen=True)
class Task:
    """One student's copy of one notebook, and what is known of it. `whole` is None where there is nothing to read.

    `fresh` says that it has not been graded yet, as it is now.
    """

    handed: Handed
    notebook: Notebook
    record: Record
    whole: Whole | None = None
    fresh: bool = True

    @property
    def key(self) -> tuple[str, str]:
        return self.record.student, self.record.notebook

    @property
    def job(self) -> Job | None:
        """What a worker is asked, or None where a worker can do nothing."""
        if self.whole is None or self.notebook.exercise is None or not self.fresh:
            return None
        record = self.record
        return Job(record.student, record.notebook, self.notebook.exercise.name, self.whole.source, record.seed)


def plan(
    handed: Sequence[Handed], notebooks: Sequence[Notebook], journal: Journal, seed: int, anew: bool
) -> list[Task]:
    """A task for every student and notebook; those of which nothing changed come back with their old record."""
    known = {notebook.name for notebook in notebooks}
    made = []
    for each in handed:
        for notebook in notebooks:
            blank = Record(each.student, notebook.name, "", "", version(notebook.exercise), seed, each.timestamp)
            kept = None if anew else journal.read(each.student, notebook.name)
            try:
                made.append(_task(each, notebook, known, blank, kept))
            except Exception as error:  # whatever somebody handed in, it is their own affair
                problem = f"it cannot be read ({type(error).__name__}: {error})"
                made.append(Task(each, notebook, replace(blank, problem=problem)))
    return made


def _task(handed: Handed, notebook: Notebook, known: set[str], blank: Record, kept: Record | None) -> Task:
    if kept is not None and kept.file and kept.file != f"{notebook.name}.ipynb":
        same_name = f"{notebook.name}.ipynb" in handed.sums
        now = replace(blank, file=kept.file, submitted="" if same_name else handed.sums.get(kept.file, ""))
    else:
        file = f"{notebook.name}.ipynb"
        now = replace(blank, file=file, submitted=handed.sums.get(file, ""))
    if kept is not None and kept.settled and now.submitted and kept.same(now):
        return Task(handed, notebook, kept, fresh=False)
    return _read(handed, notebook, known, blank)


def opened(task: Task) -> Task:
    """The task with its notebook read, to write anew what follows from its record."""
    if task.whole is not None or task.record.missing or not task.record.submitted:
        return task
    functions = task.notebook.exercise.function_names if task.notebook.exercise else ()
    try:
        total, cells, _ = collect.read(task.handed.folder, task.record.file)
    except Unreadable:
        return task
    if total != task.record.submitted:
        return task
    return replace(task, whole=whole.make(cells, task.notebook, functions))


def _read(handed: Handed, notebook: Notebook, known: set[str], blank: Record) -> Task:
    """Find the file and read it."""
    if handed.problem:
        return Task(handed, notebook, replace(blank, problem=handed.problem))
    functions = notebook.exercise.function_names if notebook.exercise else ()
    file, odd = f"{notebook.name}.ipynb", []
    if file not in handed.sums:
        like, unread = _renamed(handed, known, functions)
        if not like:
            said = "; ".join([f"{file} was not handed in", *unread])
            return Task(handed, notebook, replace(blank, missing=True, odd=(said,)))
        if len(like) > 1:
            problem = f"{file} was not handed in, and {' and '.join(like)} could each be meant"
            return Task(handed, notebook, replace(blank, problem=problem))
        odd.append(f"{file} was handed in as {like[0]}")
        file = like[0]
    try:
        total, cells, remarks = collect.read(handed.folder, file)
    except Unreadable as error:
        return Task(handed, notebook, replace(blank, file=file, submitted=handed.sums[file], problem=f"{file} {error}"))
    made = whole.make(cells, notebook, functions)
    record = replace(blank, file=file, submitted=total, odd=(*odd, *remarks, *made.odd))
    return Task(handed, notebook, record, made)


def _renamed(handed: Handed, known: set[str], functions: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files that are none of the assignment's notebooks by name and define what this one asks for, and what is
    wrong with those that cannot be read."""
    found, unread = [], []
    for name in handed.sums:
        if PurePath(name).stem not in known:
            try:
                _, cells, _ = collect.read(handed.folder, name)
            except Unreadable as error:
                unread.append(f"{name} {error}")
                continue
            if functions and any(cell.kind == "code" and defines(cell.source, functions) for cell in cells):
                found.append(name)
    return found, unread
