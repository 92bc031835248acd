"""Grade a file, or a source text, from start to end."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from grader import submission
from grader.classroom import devices
from grader.ranks import WORKER
from grader.ranks.program import HOST
from grader.sandbox.warm import Warm
from grader.submission import BadRequest, Submission
from grader.verdict import Verdict

ENGINES = ("auto", "sim", "gloo", "nccl", "all")


class NotWritten(Exception):  # noqa: N818 - reads as what it is
    """There is nothing to grade yet: one sentence, which is no error."""


def grade_file(
    name: str,
    file: Path,
    engine: str,
    seed: int | None,
    show: bool = False,
    warm: Warm | None = None,
    schedule: dict[str, Any] | None = None,
    hint: bool = False,
    checks: Collection[str] = (),
    device: str = HOST,
) -> tuple[Verdict, Submission]:
    """The verdict on `file` for the exercise `name`, and what was graded; with `show`, printed check by check,
    and with `hint` that there is a page of it, too.

    `warm` is a host that somebody has started already; it is closed at the end. With `checks` only these are graded.
    Tensors of real ranks are on the `device`. With `schedule`, which was kept, the check that it is from is judged by
    it alone (see `nodes.bench`). Neither is progress. Raises NotWritten with `show` for what was given out, and
    BadRequest for anything that is not a submission to it.
    """
    if engine not in ENGINES:
        raise BadRequest(f"no engine is called {engine!r}; choose from {', '.join(ENGINES)}")
    engine = "auto" if engine == "all" else engine
    devices.refuse(device, engine)
    if not file.exists() or file.is_dir():
        submission.read(file, ["f"])  # says what is wrong with it, before anything is started
    with warm or Warm(WORKER) as host:  # imports torch in the background, while we import the rest
        from grader import grading, registry
        from grader.classroom import terminal, which
        from grader.ranks.engines import Engines, gpus

        engines = Engines(host)
        found = registry.find(name)
        devices.refuse_world(device, found)
        if engine == "nccl" and not gpus():
            raise BadRequest("nccl needs a GPU for each rank, and this machine has none; use --engine auto or gloo")
        if schedule is not None:
            found = grading.only(found, schedule["check"])
        if checks:
            found = grading.only(found, *checks)
        handed_in: Submission = submission.read(file, found.function_names)
        written = not which.is_stub(name, handed_in)
        if show and not written:
            raise NotWritten(f"{file}: {name} is not written yet. Nothing was graded.")
        if show:
            with terminal.TerminalReport(terminal.HTML if hint else "", found.checks, bool(checks)) as told:
                verdict = grading.grade(found, handed_in, engines, seed, engine, told.check, schedule, device)
            told.summary(verdict)
        else:
            verdict = grading.grade(found, handed_in, engines, seed, engine, replayed=schedule, device=device)
    if schedule is None and written:
        remember(verdict, whole=not checks)
    return verdict, handed_in


def remember(verdict: Verdict, whole: bool, again: bool = False) -> None:
    """Record which checks failed (`again` of the same program), and a whole verdict as progress; nothing depends on
    whether that works."""
    from grader import progress
    from grader.classroom import card

    with contextlib.suppress(BadRequest):
        progress.record_checks(verdict, again)
        if whole:
            progress.record(card.kept(verdict) if verdict.passed else verdict)
