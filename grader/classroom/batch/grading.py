"""The grading of one class: workers, journal, gradebook and pages, and what is said of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from grader.classroom.batch import summary, tasks
from grader.classroom.batch.book import Book, NotWritten, Score
from grader.classroom.batch.collect import Handed
from grader.classroom.batch.course import Course
from grader.classroom.batch.pool import Done, Pool
from grader.classroom.batch.publish import Publisher
from grader.classroom.batch.records import Journal, Record, write_whole
from grader.classroom.batch.results import Results
from grader.classroom.batch.summary import Progressing
from grader.classroom.batch.tasks import Task
from grader.classroom.pages import overview
from grader.submission import BadRequest

_ATTEMPTS = 3


class Grading:
    """One run. Only this process writes; a submission that goes wrong, in whatever way, never ends the run."""

    def __init__(self, course: Course, assignment: str, journal: Journal, pool: Pool, console: Console) -> None:
        self.course, self.assignment, self.journal = course, assignment, journal
        self.pool, self.console = pool, console
        self.book = Book(course, assignment)
        self.publisher = Publisher(course, self.book, assignment)
        self.held: list[Task] = []
        self.blocked = ""  # why the gradebook takes nothing at the moment

    def run(self, handed: Sequence[Handed], wanted_seed: int | None, anew: bool) -> int:
        """Grade what is new; the exit status. Raises BadRequest."""
        began = time.monotonic()
        try:
            notebooks, scores = self.book.notebooks(), self.book.scores()
            seed = self.journal.seed(wanted_seed, anew)
        except NotWritten as error:
            raise BadRequest(str(error)) from None
        except OSError as error:
            raise BadRequest(f"{self.journal.folder}: cannot be written ({error.strerror})") from None
        plan = tasks.plan(handed, notebooks, self.journal, seed, anew)
        self.results = Results(self.publisher, plan)
        todo = [task for task in plan if not self._is_written(task, scores)]
        self._announce(plan, len(handed), seed)
        try:
            self._work(todo)
        except KeyboardInterrupt:
            self.console.print("stopped: all verdicts so far are kept; run the same command again to continue")
            raise
        self._tell(time.monotonic() - began)
        return 0 if self.results.complete else 1

    def _announce(self, plan: Sequence[Task], students: int, seed: int) -> None:
        new = sum(task.fresh and self._is_shown(task) for task in plan)
        before = sum(not task.fresh and self._is_shown(task) for task in plan)
        self.console.print(
            f"{self.assignment}: {students} student{'s' * (students > 1)}, {new} to grade, {before} graded before; "
            f"seed {seed}; {self.pool.about}",
            soft_wrap=True,
            markup=False,
        )

    def _is_written(self, task: Task, scores: Mapping[tuple[str, str], Score]) -> bool:
        """Whether there is nothing to do about a task any more."""
        if task.key not in scores:
            return False
        if task.record.missing:
            return scores[task.key] == (0.0, False)
        same_time = task.record.timestamp == task.handed.timestamp
        return not task.fresh and same_time and self.publisher.is_written(task.record)

    def _work(self, todo: Sequence[Task]) -> None:
        with Progressing(self.console, sum(map(self._is_shown, todo))) as progress:
            for task in self._in_turn(todo):
                written = self._write(task)
                if self._is_shown(task):
                    progress.done(self.results.row(written), task.notebook.name if self.results.several else "")
            self._write_held()

    def _is_shown(self, task: Task) -> bool:
        return not task.record.missing and self.results.is_shown(task)

    def _in_turn(self, todo: Sequence[Task]) -> Iterator[Task]:
        """Every task, as soon as all is known that there is to write."""
        jobs = {task.key: (job, task) for task in todo if (job := task.job) is not None}
        done = self.pool.results([job for job, _ in jobs.values()])
        others = [task for task in todo if task.key not in jobs]
        yield from (self._again(task) for task in others if not task.fresh)
        yield from (task for task in others if task.fresh and task.whole is None and not task.record.missing)
        for each in done:
            _, task = jobs[each.job.student, each.job.notebook]
            yield replace(task, record=_judged(task.record, each))
        yield from (self._run_by_nbgrader(task) for task in others if task.fresh and task.whole is not None)
        yield from (task for task in others if task.record.missing)

    def _again(self, task: Task) -> Task:
        """A task that was graded, ready to be written anew."""
        task = tasks.opened(task)
        if task.notebook.exercise is not None or self.publisher.is_whole(task.record) or task.whole is None:
            return task
        return self._run_by_nbgrader(task)  # which alone can write it

    def _run_by_nbgrader(self, task: Task) -> Task:
        """Have nbgrader grade a notebook with code of the teacher's own."""
        from grader.classroom.batch import kernel  # takes seconds to import, and few need it

        record, began = task.record, time.monotonic()
        others = [notebook.name for notebook in self.results.notebooks if notebook.name != record.notebook]
        try:
            self.book.begin(record.student, task.handed.timestamp)
            kernel.autograde(self.course, self.assignment, task, others)
            points = self.book.scores()[task.key].points
        except (kernel.KernelFailed, NotWritten, KeyError, OSError) as error:
            return replace(task, record=replace(record, problem=str(error)))
        return replace(task, record=replace(record, points=points, seconds=round(time.monotonic() - began, 3)))

    def _write(self, task: Task) -> Task:
        """Keep the record, and write all that follows from it; what cannot be written now is tried again at the end."""
        self.results.put(task)
        try:
            if task.fresh and not task.record.missing:
                self.journal.write(task.record)
            if self.blocked:  # each try may take seconds
                raise NotWritten(self.blocked)
            record = self.publisher.publish(task.record, task.handed, task.notebook, task.whole)
            if not record.missing:
                record = self.journal.finish(record, self.book.name)
            task = replace(task, record=record)
        except NotWritten as error:
            self.blocked = str(error) if error.passing else self.blocked
            self._hold(task, str(error))
        except OSError as error:
            self._hold(task, error.strerror or str(error))
        except Exception as error:  # a page that cannot be drawn must not keep anybody else from theirs
            self._hold(task, f"{type(error).__name__}: {error}")
        self.results.put(task)
        return task

    def _hold(self, task: Task, why: str) -> None:
        self.held.append(task)
        self.results.unwritten[task.key] = why

    def _write_held(self) -> None:
        """Another try at what could not be written: a gradebook is locked for a moment, a disk is full for a while."""
        for _ in range(_ATTEMPTS):
            held, self.held, self.blocked = self.held, [], ""
            for task in held:
                self.results.unwritten.pop(task.key)
            for task in held:
                self._write(task)

    def _tell(self, seconds: float) -> None:
        """The tables, the pages, and where everything is."""
        try:
            self.results.scores = {key: score.points for key, score in self.book.scores().items()}
        except NotWritten as error:
            self.console.print(f"{error}: these points are without penalties and changes by hand", markup=False)
        pages: list[Path] = []
        found = self.results.by_notebook(self.assignment, seconds, self.pool.about)
        for notebook, result in found:
            summary.show(
                self.console, result, [check.name for check in notebook.exercise.checks] if notebook.exercise else []
            )
            name = f"{self.assignment}.{notebook.name}" if len(found) > 1 else self.assignment
            page = self.course.folder / "overview" / f"{name}.html"
            try:
                write_whole(page, overview.page(result).encode("utf-8", errors="replace"))
                pages.append(page)
            except OSError as error:
                self.console.print(f"{page}: cannot be written ({error.strerror})", markup=False)
        if self.results.left_out:
            self.console.print(f"\nNobody handed in {', '.join(self.results.left_out)}", markup=False)
        summary.remarks(self.console, self.results.remarks())
        summary.places(self.console, pages, self.course.step("feedback"), self.book.name)

    def close(self) -> None:
        """Close the gradebook."""
        self.book.close()


def _judged(record: Record, done: Done) -> Record:
    if done.verdict is None:
        return replace(record, problem=done.problem, seconds=done.seconds, worker=done.worker)
    return record.judged(done.verdict, done.seconds, done.worker)
