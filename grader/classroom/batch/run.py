"""`rankup class grade`: from the folder of submissions to the gradebook and the pages, and on again after a stop."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grader.classroom.batch import cluster, collect, course
from grader.classroom.batch.collect import Handed
from grader.classroom.batch.pool import LocalPool, Pool, cores
from grader.classroom.batch.records import Journal
from grader.sandbox import modes
from grader.submission import BadRequest

if TYPE_CHECKING:
    from rich.console import Console

    from grader.classroom.batch.course import Course

ENGINES = ("local", "ray")
_TRUST = "RANKUP_TRUST_SUBMISSIONS"


@dataclass(frozen=True)
class Wanted:
    """What is asked for, as the options of `rankup class grade` say."""

    assignment: str
    workers: int | None = None
    engine: str = "local"
    address: str = ""
    trust: bool = False
    force: bool = False
    db: str | None = None
    seed: int | None = None


def grade_class(wanted: Wanted, pool: Pool | None = None) -> int:
    """Grade what is new in a class; the exit status: 0, or 1 if something could not be graded. Raises BadRequest.

    `pool` is another one than `wanted` asks for; it is closed at the end.
    """
    from rich.console import Console

    console = Console(highlight=False)
    place = course.load(wanted.db)
    if wanted.engine not in ENGINES:
        raise BadRequest(f"no engine is called {wanted.engine!r}; choose from {', '.join(ENGINES)}")
    if wanted.address and wanted.engine != "ray":
        raise BadRequest("--address is for a Ray cluster only: add --engine ray, or leave --address out")
    handed = submissions(place, wanted.assignment)
    if wanted.engine == "local":
        _isolated(wanted.trust, console)
    with course.alone(place.folder), contextlib.closing(pool or _pool(wanted, console)) as workers:
        journal = Journal(place.folder, wanted.assignment)
        _begin(workers, handed, journal, wanted)
        from grader.classroom.batch import grading  # takes seconds to import, while the workers start

        with contextlib.closing(grading.Grading(place, wanted.assignment, journal, workers, console)) as run:
            return run.run(handed, wanted.seed, wanted.force)


def submissions(place: Course, assignment: str) -> list[Handed]:
    """What was handed in for the assignment. Raises BadRequest if that is nothing."""
    if not assignment or "/" in assignment or assignment in (".", ".."):
        raise BadRequest(f"{assignment!r} is not the name of an assignment")
    submitted = place.step("submitted")
    try:
        handed = collect.find(submitted, assignment, place.excluded)
    except FileNotFoundError:
        handed = []
    except OSError as error:
        raise BadRequest(f"{submitted}: cannot be read ({error.strerror})") from None
    if not handed:
        raise BadRequest(f"nobody has handed in {assignment!r}: there is no {submitted}/STUDENT/{assignment}")
    return handed


def _isolated(trusted: bool, console: Console) -> None:
    """Raises BadRequest where strangers' code would not be kept from this machine, unless it is `trusted`."""
    mode = modes.mode()
    if mode == "full":
        if not trusted:
            modes.require_full()
        return
    why = modes.why_not("full") or f"the mode is {mode}"
    if not trusted:
        raise BadRequest(
            f"submissions cannot be isolated here ({why}); `rankup doctor` says how to change this. "
            "If you trust every submission, add --trust-submissions"
        )
    os.environ[_TRUST] = "1"  # for notebooks that nbgrader runs
    line = f"Not isolated ({why}): grade only code that you trust like this"
    console.print(line, style="yellow", markup=False, soft_wrap=True)


def _pool(wanted: Wanted, console: Console) -> Pool:
    if wanted.engine == "local":
        return LocalPool(wanted.workers or cores())
    if wanted.trust:
        os.environ[_TRUST] = "1"  # for notebooks that nbgrader runs, on this machine
    else:
        modes.require_full()
    pool = cluster.open_pool(wanted.address, wanted.workers, wanted.trust)  # what machines isolate, it asks them
    for remark in pool.remarks:
        console.print(remark, style="yellow", markup=False, soft_wrap=True)
    return pool


def _begin(pool: Pool, handed: list[Handed], journal: Journal, wanted: Wanted) -> None:
    """Let as many workers start as there is new work for, before anything else is imported."""
    new = 0
    for each in handed:
        known = set() if wanted.force else journal.sums(each.student)
        new += any(total and total not in known for total in each.sums.values())
    pool.start(new)
