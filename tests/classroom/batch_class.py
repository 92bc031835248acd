"""A class for tests: an assignment in a gradebook, notebooks that were handed in, and a pool that grades at once."""

from __future__ import annotations

import json
import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from grader import registry
from grader.classroom.batch import course, run
from grader.classroom.batch.pool import Done, Job
from grader.classroom.service import FILE
from grader.verdict import CheckResult, Diagnosis, Verdict

ROOT = Path(__file__).parent.parent.parent
ASSIGNMENT, NOTEBOOK, SOLUTION = "06-collectives", "ring_all_reduce", "solution"
RELEASED = ROOT / "exercises" / ASSIGNMENT / f"{NOTEBOOK}.ipynb"
RIGHT = "def ring_all_reduce(tensor):\n    ...  # right\n"
WRONG = "def ring_all_reduce(tensor):\n    ...  # wrong\n"


def generate(folder: Path, url: str | None = None) -> None:
    """Put the assignment into the gradebook of the class in `folder`, as `nbgrader generate_assignment` does."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config

    place = settings(folder, url)
    config = Config(place.config)
    config.CourseDirectory.db_url = place.url
    config.CourseDirectory.assignment_id = ASSIGNMENT
    config.CourseDirectory.release_directory = str(folder / "release")
    converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
    converter.force = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        converter.start()


def settings(folder: Path, url: str | None = None) -> course.Course:
    """The course whose class is in `folder`."""
    before = os.environ.get("RANKUP_CLASS")
    os.environ["RANKUP_CLASS"] = str(folder)
    try:
        return course.load(url)
    finally:
        if before is None:
            del os.environ["RANKUP_CLASS"]
        else:
            os.environ["RANKUP_CLASS"] = before


def released() -> dict[str, Any]:
    """The notebook as learners get it, as JSON."""
    notebook: dict[str, Any] = json.loads(RELEASED.read_text())
    return notebook


def cell(notebook: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A notebook's cell, by nbgrader's name for it."""
    found: dict[str, Any] = next(
        cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == name
    )
    return found


def solved(source: str) -> dict[str, Any]:
    """The released notebook with this text in its solution cell."""
    notebook = released()
    cell(notebook, SOLUTION)["source"] = source
    return notebook


def hand_in(
    folder: Path, student: str, notebook: Mapping[str, Any] | bytes | str, name: str = f"{NOTEBOOK}.ipynb"
) -> Path:
    """Put a student's notebook (JSON, bytes, or the text of a solution) where nbgrader looks for it."""
    if isinstance(notebook, str):
        notebook = solved(notebook)
    path = folder / "submitted" / student / ASSIGNMENT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode())
    return path


def verdict(job: Job) -> Verdict:
    """All points for a source that says it is right, none for others."""
    found = registry.find(job.exercise)
    if "# right" in job.source:
        checks = [CheckResult(c.name, c.title, c.points, c.points, "pass", diagram="<svg/>") for c in found.checks]
    else:
        lost = Diagnosis("deadlock", "Deadlock: rank 0 waits for rank 1.", 0, FILE, 2)
        checks = [CheckResult(c.name, c.title, 0, c.points, "fail", lost) for c in found.checks]
    return Verdict(found.name, tuple(checks), job.seed, 0.5, ("sim",))


class InstantPool:
    """Grades by what the source says, in this process. A source that says it dies has no verdict."""

    about = "a pool for tests"

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.closed = False

    def start(self, jobs: int) -> None:
        pass

    def results(self, jobs: Sequence[Job]) -> Iterator[Done]:
        for job in jobs:
            self.jobs.append(job)
            if "# dies" in job.source:
                yield Done(job, None, "the worker was ended by SIGKILL", 0.5, "worker 1")
            else:
                yield Done(job, verdict(job), "", 0.5, "worker 1")

    def close(self) -> None:
        self.closed = True

    @property
    def students(self) -> list[str]:
        """Whose work was graded."""
        return [job.student for job in self.jobs]


class Class:
    """A class in a folder, graded in this process by a pool that takes no time."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder, self.url = folder, url

    def hand_in(self, student: str, notebook: Mapping[str, Any] | bytes | str, name: str = f"{NOTEBOOK}.ipynb") -> Path:
        return hand_in(self.folder, student, notebook, name)

    def grade(self, pool: Any = None, **wanted: Any) -> tuple[int, list[str]]:
        """Grade what is new: the exit status, and whose work was graded."""
        pool = pool or InstantPool()
        before = os.environ.get("RANKUP_CLASS")
        os.environ["RANKUP_CLASS"] = str(self.folder)
        try:
            status = run.grade_class(run.Wanted(ASSIGNMENT, trust=True, db=self.url, **wanted), pool)
        finally:
            if before is None:
                del os.environ["RANKUP_CLASS"]
            else:
                os.environ["RANKUP_CLASS"] = before
        return status, pool.students

    def score(self, student: str, notebook: str = NOTEBOOK) -> tuple[float, bool]:
        """The gradebook's score of a student's notebook, and whether a person must look at it."""
        from nbgrader.api import Gradebook

        with Gradebook(settings(self.folder, self.url).url, "rankup") as book:
            found = book.find_submission_notebook(notebook, ASSIGNMENT, student)
            return found.score, found.needs_manual_grade

    def record(self, student: str, notebook: str = NOTEBOOK) -> dict[str, Any]:
        """The journal's record."""
        path = self.folder / "journal" / ASSIGNMENT / student / f"{notebook}.json"
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def graded(self, student: str) -> Path:
        return self.folder / "autograded" / student / ASSIGNMENT / f"{NOTEBOOK}.ipynb"

    def page(self, student: str) -> Path:
        return self.folder / "feedback" / student / ASSIGNMENT / f"{NOTEBOOK}.html"


@cache
def _empty_gradebook() -> bytes:
    """A gradebook that knows the assignment, and nobody in it: made once for all tests of a process."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        return (Path(folder) / "gradebook.db").read_bytes()


def empty(folder: Path) -> Class:
    """A class in this folder in which nobody has handed in anything."""
    (folder / "gradebook.db").write_bytes(_empty_gradebook())
    return Class(folder)


def words(text: str) -> str:
    """What was printed, in one line."""
    return re.sub(r"\s+", " ", text)
