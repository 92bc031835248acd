"""Grades classes in processes that are killed at chosen points, and then to the end. Prints what was seen, as JSON.

    python killed_class.py FOLDER

A program of its own, with one thread, so that it may fork: what a run needs is imported once.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from batch_class import NOTEBOOK, RIGHT, WRONG, Class, InstantPool, empty
from nbgrader.preprocessors import SaveAutoGrades

from grader.classroom.batch import publish, records
from grader.classroom.batch.book import Book
from grader.classroom.batch.pool import Done, Job
from grader.classroom.batch.records import Journal
from grader.classroom.pages import feedback, overview

STUDENTS = {"ada": RIGHT, "bo": WRONG, "cleo": RIGHT}


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at(owner: Any, name: str, call: int, after: bool = False) -> Callable[[], None]:
    """Arrange that the process is killed at the beginning or end of the so many-th call."""

    def arrange() -> None:
        original, count = getattr(owner, name), 0

        def replaced(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == call and not after:
                die()
            result = original(*args, **kwargs)
            if count == call:
                die()
            return result

        setattr(owner, name, replaced)

    return arrange


# where it is killed -> how to arrange that
POINTS: dict[str, Callable[[], None]] = {
    "before anything is written": at(Journal, "seed", 1),
    "when a verdict is there, before its record": at(Journal, "write", 3),
    "in the middle of writing a record": at(os, "fsync", 2),
    "after a record": at(Journal, "write", 3, after=True),
    "before the gradebook knows the student": at(Book, "begin", 2),
    "when the graded notebook is written": at(publish, "write_whole", 4, after=True),
    "before the scores": at(Book, "save", 2),
    "in the middle of the scores": at(SaveAutoGrades, "_add_score", 10),
    "after the scores": at(Book, "save", 2, after=True),
    "before the page": at(feedback, "page", 2),
    "before the record is finished": at(Journal, "finish", 2),
    "when all is graded": at(Book, "scores", 2),
    "before the overview": at(overview, "page", 1),
}


class Noting(InstantPool):
    """Notes in a file whose work it graded: the process may not live to tell."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def results(self, jobs: Sequence[Job]) -> Iterator[Done]:
        for done in super().results(jobs):
            with self.path.open("a") as file:
                file.write(done.job.student + "\n")
            yield done


def run(room: Class, arrange: Callable[[], None] = lambda: None) -> tuple[int, list[str]]:
    """Grade in a process of its own: its exit status (negative: the signal), and whose work was graded."""
    noted = room.folder / "noted"
    noted.write_text("")
    pid = os.fork()
    if pid == 0:
        status = 70
        with contextlib.suppress(BaseException), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            arrange()
            status, _ = room.grade(Noting(noted))
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, noted.read_text().split()


def settled(room: Class) -> list[str]:
    """Whose verdicts are kept."""
    found = [records.Journal(room.folder, "06-collectives").read(student, NOTEBOOK) for student in STUDENTS]
    return [record.student for record in found if record is not None and record.settled]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def main(folder: Path) -> dict[str, Any]:
    seen = {}
    for number, (point, arrange) in enumerate({"": die, **POINTS}.items()):
        place = folder / str(number)
        place.mkdir()
        room = empty(place)
        for student, source in STUDENTS.items():
            room.hand_in(student, source)
        killed = run(room, arrange) if point else (0, [])
        kept = settled(room)
        last = run(room)
        seen[point] = {
            "killed": killed,
            "kept": kept,
            "last": last,
            "scores": [room.score(student) for student in STUDENTS],
            "files": files(place),
        }
    return seen


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
