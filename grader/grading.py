"""The grading of one submission: every check of its exercise, judged by runs in the exercise's world."""

from __future__ import annotations

import contextlib
import gc
import random
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from grader import tally
from grader.exercise import SCHEDULES, Check, Exercise, Grading, Opened
from grader.lost import Lost, Unable
from grader.ranks.engines import Engines
from grader.ranks.program import HOST
from grader.sandbox.warm import BoxFailed
from grader.submission import BadRequest, Submission
from grader.trace import dependencies, diagram, gantt, lanes, schedule, storyboard
from grader.trace.dependencies import Dependencies
from grader.trace.gantt import Chart
from grader.trace.lanes import Lanes
from grader.trace.schedule import Schedule
from grader.trace.story import Story
from grader.verdict import CheckResult, Diagnosis, Measured, Verdict
from grader.worlds.ranks import Outcome

SURVIVORS = 100_000  # objects more than before, after which garbage is looked for

Picture = Outcome | Story | Chart | Lanes | Schedule | Dependencies
DRAWN: Mapping[type, Callable[[Any], str]] = {
    Story: storyboard.svg, Chart: gantt.svg, Lanes: lanes.svg, Schedule: schedule.svg,
    Dependencies: dependencies.svg,
}  # fmt: skip


def grade(
    exercise: Exercise,
    submission: Submission,
    engines: Engines,
    seed: int | None = None,
    engine: str = "auto",
    on_check: Callable[[CheckResult], None] = lambda _: None,
    replayed: dict[str, Any] | None = None,
    device: str = HOST,
    schedules: int = SCHEDULES,
) -> Verdict:
    """Grade one submission: every check of the exercise, with inputs drawn from `seed`, and the schedules of nodes from
    `schedules`, which only tests and measurements change: with every seed the same text is to get the same points.

    `replayed` is a schedule of nodes that was kept: what it was found by is played by it alone. With another `device`
    than the host's memory, ranks are real wherever a check can do without the simulator, and their tensors are there.

    Decided here, outside the learner's processes, and fails closed: what cannot be judged gives no points, and a judge
    that raises what it should not ends its own check alone, as an error.
    """
    started = time.monotonic()
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    results: list[CheckResult] = []
    grading = Grading(submission, engines, seed, engine, replayed, len(exercise.checks) == 1, device, schedules)
    with _collected_rarely(), contextlib.closing(exercise.world.open(grading)) as world:
        for result in _results(exercise, world, submission):
            results.append(result)
            on_check(result)
        names = world.engines
    return Verdict(exercise.name, tuple(results), seed, time.monotonic() - started, names)


@contextlib.contextmanager
def _collected_rarely() -> Iterator[None]:
    """A run is thousands of small objects, and hardly any in cycles: each look for those takes more than it frees."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], SURVIVORS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def only(exercise: Exercise, *names: str) -> Exercise:
    """The exercise with these checks alone. Raises BadRequest if it has none of such a name."""
    there = [one.name for one in exercise.checks]
    for name in names:
        if name not in there:
            raise BadRequest(f"{exercise.name} has no check called {name!r}; it has {', '.join(there)}")
    return replace(exercise, checks=tuple(one for one in exercise.checks if one.name in names))


def _results(exercise: Exercise, world: Opened, submission: Submission) -> Iterator[CheckResult]:
    checks = exercise.checks
    try:
        hopeless = submission.broken or world.prepare()
    except Exception as error:
        yield from (_result(check, "error", _failed(error)) for check in checks)
        return
    if hopeless:
        yield from (_result(check, "fail", hopeless) for check in checks)
    else:
        yield from world.together([partial(_judged, world, submission, check) for check in checks])


def _judged(world: Opened, submission: Submission, check: Check) -> CheckResult:
    """What a check says."""
    try:
        with np.errstate(all="ignore"), tally.collected() as noted:  # numbers are the learner's to make up
            picture = check.judge(world.bench(check.name))
    except Unable as error:
        return _result(check, "skipped", Diagnosis("unsupported_engine", str(error)))
    except Lost as lost:
        unwritten = _unwritten(lost.diagnosis, submission)
        if unwritten:
            return _result(check, "fail", unwritten)
        return _result(check, "fail", lost.diagnosis, lost.picture, world, lost.schedule)
    except Exception as error:
        return _result(check, "error", _failed(error))
    return _result(check, "pass", None, picture, world, measured=tuple(noted.values()))


def _unwritten(found: Diagnosis, submission: Submission) -> Diagnosis | None:
    """The same, where it is the stub that raised: then there is no run to be shown, and no traceback to be read."""
    stub = "raise NotImplementedError"
    if found.kind != "crash" or stub[6:] not in found.message or not submission.line(found.line).startswith(stub):
        return None
    return replace(found, message=f"Not written yet: line {found.line} is still `{stub}`.")


def _failed(error: Exception) -> Diagnosis:
    """Why a check could not be judged, which is not the learner's doing."""
    if isinstance(error, BoxFailed):
        return Diagnosis("crash", f"Not graded: {error}.")
    at = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(at.filename).name} line {at.lineno}"
    said = "".join(traceback.format_exception_only(error)).strip()[:300]
    text = f"Not graded: the check itself failed ({said}, in {place}). The error is in the grader. Please report it."
    return Diagnosis("crash", text)


def _result(
    check: Check, status: Any, diagnosis: Diagnosis | None, picture: Picture | None = None,
    world: Opened | None = None, schedule: dict[str, Any] | None = None, measured: tuple[Measured, ...] = (),
) -> CheckResult:  # fmt: skip
    points = check.points if status == "pass" else 0.0
    if picture is not None and not isinstance(picture, Outcome):
        picture.title = picture.title or (check.title if diagnosis is None else _heading(check, diagnosis))
    drawn: Any = partial(draw, picture) if picture is not None else None
    output = world.output(picture) if world is not None else ""
    return CheckResult(
        check.name, check.title, points, check.points, status, diagnosis, drawn, output, schedule, measured
    )


def _heading(check: Check, wrong: Diagnosis) -> str:
    """What stands above the picture of a run that went wrong, where its judge has not said it."""
    if wrong.expected and wrong.got:
        return f"Expected {wrong.expected}, got {wrong.got}"
    return f"{wrong.kind.replace('_', ' ').capitalize()}: {check.title}"


def draw(picture: Picture) -> str | None:
    """The picture of a run, as SVG text; None of one rank that communicates with nobody."""
    if not isinstance(picture, Outcome):
        return DRAWN[type(picture)](picture)
    trace, run = picture.trace, picture.run
    if trace.ranks == 1 and not trace.operations(0):
        return None
    sent = sorted({trace.bytes_sent(rank) for rank in range(trace.ranks)})
    each = f"{sent[0]:,} bytes" if len(sent) == 1 else f"{sent[0]:,} to {sent[-1]:,} bytes"
    subtitle = f"{picture.case.label}: each rank {'sent' if picture.result else 'had begun to send'} {each}"
    subtitle = subtitle if sent[-1] else f"{picture.case.label}: no rank sent any data"
    if picture.result is None:
        return diagram.svg(
            trace,
            f"Your run on {trace.ranks} ranks: {run.ending.replace('_', ' ')}",
            subtitle,
            run.cycle,
            dict(run.marks),
        )
    return diagram.svg(trace, f"Your run on {trace.ranks} ranks", subtitle)
