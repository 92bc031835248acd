"""Grade a file, or a source text, from start to end."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from grader import progress, submission
from grader.submission import BadRequest, Submission
from grader.verdict import CheckResult, Verdict

ENGINES = ("auto", "sim", "gloo", "nccl", "all")
HERE = ("auto", "gloo", "all")


def grade_file(
    name: str, file: Path, engine: str, seed: int | None, on_check: Callable[[CheckResult], None] | None = None
) -> Verdict:
    """The verdict on `file` for the exercise `name`. Raises BadRequest for anything that is not a submission to it."""
    if engine not in ENGINES:
        raise BadRequest(f"no engine is called {engine!r}; there are {', '.join(ENGINES)}")
    if engine not in HERE:
        raise BadRequest(f"the engine {engine} cannot run {name} on this machine; use auto or gloo")
    if not file.exists() or file.is_dir():
        submission.read(file, "")  # says what is wrong with it, before anything is started
    from grader.ranks.processes import Processes

    processes = Processes()  # imports torch in the background while we import the rest
    try:
        from grader import exercise

        found = exercise.find(name)
        handed_in: Submission = submission.read(file, found.function)
        verdict = exercise.grade(found, handed_in, processes, seed, on_check=on_check or (lambda _: None))
    finally:
        processes.close()
    with contextlib.suppress(sqlite3.Error, OSError):  # the verdict does not depend on where progress is kept
        progress.record(verdict)
    return verdict
