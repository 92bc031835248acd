"""An exercise, its checks and points; the registry; and the grading of one submission.

A check judges runs of the learner's function, which a Bench makes for it.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from grader.bench import Bench, Lost, NotRun, Outcome
from grader.ranks.engines import DEFAULT_LIMITS, Engines
from grader.ranks.faults import Fault
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Call, Function, Limits, Strided, outputs_text
from grader.sandbox.warm import BoxFailed
from grader.submission import BadRequest, Submission
from grader.trace import diagram, gantt, storyboard
from grader.trace.gantt import Chart
from grader.trace.story import Story
from grader.trace.trouble import NotPlayed, Trouble
from grader.verdict import CheckResult, Diagnosis, Verdict

World = tuple[int, str, Network, tuple[Fault, ...]]


@dataclass(frozen=True, eq=False)
class Case:
    """One call that is made on every rank of a world: `arguments[rank]` are rank's positional arguments.

    `function` is the one that is called, the exercise's first if it is empty, and `by` the harness's function that
    calls it, if one does. `engine` and `network` say where it is run if the person who grades does not say otherwise;
    `faults` befall its simulated ranks, and it is run nowhere else.
    `expected` is the check's own, for its judge. `telling` is whether what is special about the exercise shows in it:
    other cases are not compared with real processes.
    """

    group: str
    label: str
    arguments: tuple[tuple[Any, ...], ...]
    function: str = ""
    engine: str = "sim"
    network: Network = ROUNDS
    expected: Any = None
    telling: bool = True
    by: str = ""
    faults: tuple[Fault, ...] = ()

    @property
    def ranks(self) -> int:
        return len(self.arguments)

    @property
    def tensors(self) -> tuple[Strided, ...]:
        """Every rank's first argument."""
        return tuple(arguments[0] for arguments in self.arguments)

    @property
    def world(self) -> World:
        """Cases with the same world can be called in one run."""
        return self.ranks, self.engine, self.network, self.faults

    @property
    def call(self) -> Call:
        return Call(self.arguments, self.function, self.by)


@dataclass(frozen=True)
class Check:
    """One thing that must be right. `judge` returns the outcome to draw, or raises Lost."""

    name: str
    title: str
    points: float
    judge: Callable[[Bench], Outcome | Story | Chart]


@dataclass(frozen=True)
class Exercise:
    """One graded exercise: what the learner writes, and what right means.

    `functions` are what the learner defines. `cases` draws fresh inputs from a generator; `minutes` and `difficulty`
    (1 to 3) are for people. Without functions it is a program that is run as a whole, and `script` is the name of the
    one in a notebook's cell that check() is given. `nodes` are the names of the classes of message-passing nodes that
    the learner writes, and `watched` the attributes of theirs that checks look at.
    `job` is the name of a function that the learner writes, which is given workers (see `jobs`); `spark` those of
    functions that are run on Spark, and `ray` of what the harness calls against a Ray. `harness`, `banned`,
    `imported` and `apart` are as a Program has them.
    """

    name: str
    chapter: str
    title: str
    functions: tuple[Function, ...]
    minutes: int
    difficulty: int
    checks: tuple[Check, ...]
    cases: Callable[[Draw], Iterable[Case]]
    p2p_only: bool = False
    limits: Limits = DEFAULT_LIMITS
    harness: str = ""
    banned: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    apart: bool = False
    script: str = ""
    nodes: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    job: str = ""
    spark: tuple[str, ...] = ()
    ray: tuple[str, ...] = ()

    @property
    def max_points(self) -> float:
        return sum(check.points for check in self.checks)

    def drawn(self, seed: int) -> list[Case]:
        """The cases, with the inputs of this seed."""
        return list(self.cases(Draw(seed)))

    @property
    def function_names(self) -> tuple[str, ...]:
        return (*(function.name for function in self.functions), *self.nodes, *self.spark, *self.ray) or (
            self.job or self.script,
        )


class Draw:
    """Fresh inputs: the same for the same seed, different for every label."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def generator(self, label: str) -> np.random.Generator:
        return np.random.default_rng([self._seed, *label.encode()])


def draw(outcome: Outcome | Story | Chart) -> str | None:
    """The picture of an outcome, as SVG text; None of one rank that communicates with nobody."""
    if isinstance(outcome, Chart):
        return gantt.svg(outcome)
    if isinstance(outcome, Story):
        return storyboard.svg(outcome)
    trace, run = outcome.trace, outcome.run
    if trace.ranks == 1 and not trace.operations(0):
        return None
    sent = sorted({trace.bytes_sent(rank) for rank in range(trace.ranks)})
    each = f"{sent[0]} bytes" if len(sent) == 1 else f"{sent[0]} to {sent[-1]} bytes"
    subtitle = f"{outcome.case.label}: each rank {'sent' if outcome.result else 'had begun to send'} {each}"
    if outcome.result is None:
        return diagram.svg(
            trace,
            f"Your run on {trace.ranks} ranks: {run.ending.replace('_', ' ')}",
            subtitle,
            run.cycle,
            dict(run.marks),
        )
    return diagram.svg(trace, f"Your run on {trace.ranks} ranks", subtitle)


def grade(
    exercise: Exercise,
    submission: Submission,
    engines: Engines,
    seed: int | None = None,
    engine: str = "auto",
    on_check: Callable[[CheckResult], None] = lambda _: None,
    replayed: dict[str, Any] | None = None,
) -> Verdict:
    """Grade one submission: every check of the exercise, with inputs drawn from `seed`.

    `replayed` is a schedule of nodes that was kept: what it was found by is played by it alone.

    Decided here, outside the learner's processes, and fails closed: what cannot be judged gives no points.
    """
    started = time.monotonic()
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    bench = Bench(exercise, submission, engines, seed, engine)
    bench.nodes.replayed = replayed
    results: list[CheckResult] = []
    with contextlib.closing(bench):
        for result in _results(bench, submission):
            results.append(result)
            on_check(result)
    return Verdict(exercise.name, tuple(results), seed, time.monotonic() - started, bench.engine_names)


def _results(bench: Bench, submission: Submission) -> Iterator[CheckResult]:
    checks = bench.exercise.checks
    try:
        hopeless = submission.broken or bench.prepare()
    except BoxFailed as error:
        yield from (_result(check, "error", Diagnosis("crash", f"Not graded: {error}.")) for check in checks)
        return
    if hopeless:
        yield from (_result(check, "fail", hopeless) for check in checks)
    elif bench.exercise.nodes:
        yield from bench.nodes.together([partial(_judged, bench.of(check), check) for check in checks])
    else:
        yield from (_judged(bench, check) for check in checks)


def _judged(bench: Bench, check: Check) -> CheckResult:
    """What a check says."""
    try:
        with np.errstate(all="ignore"):  # numbers are the learner's to make up
            outcome = check.judge(bench)
    except (NotRun, NotPlayed) as error:
        return _result(check, "skipped", Diagnosis("unsupported_engine", str(error)))
    except Trouble as trouble:
        return _result(check, "fail", trouble.diagnosis, trouble.story or trouble.chart, bench, trouble.schedule)
    except Lost as lost:
        return _result(check, "fail", lost.diagnosis, lost.outcome, bench)
    except BoxFailed as error:
        return _result(check, "error", Diagnosis("crash", f"Not graded: {error}."))
    return _result(check, "pass", None, outcome, bench)


def _result(
    check: Check, status: Any, diagnosis: Diagnosis | None, outcome: Outcome | Story | Chart | None = None,
    bench: Bench | None = None, schedule: dict[str, Any] | None = None,
) -> CheckResult:  # fmt: skip
    points = check.points if status == "pass" else 0.0
    if isinstance(outcome, Story | Chart):
        outcome.title = outcome.title or (check.title if diagnosis is None else _heading(check, diagnosis))
    picture = draw(outcome) if outcome is not None else None
    output = ""
    if isinstance(outcome, Outcome):
        output = outputs_text(outcome.run)
    elif bench is not None:
        output = bench.nodes.output() or bench.rays.output()
    return CheckResult(check.name, check.title, points, check.points, status, diagnosis, picture, output, schedule)


def _heading(check: Check, wrong: Diagnosis) -> str:
    """What stands above the picture of a run that went wrong, where its judge has not said it."""
    if wrong.expected and wrong.got:
        return f"Expected {wrong.expected}, got {wrong.got}"
    return f"{wrong.kind.replace('_', ' ').capitalize()}: {check.title}"


def only(exercise: Exercise, check: str) -> Exercise:
    """The exercise with that one check. Raises BadRequest if it has none of that name."""
    checks = tuple(one for one in exercise.checks if one.name == check)
    if not checks:
        raise BadRequest(f"{exercise.name} has no check called {check!r}")
    return replace(exercise, checks=checks)


def names() -> list[str]:
    """The names of all exercises, by chapter."""
    return [exercise.name for exercise in catalogue()]


def catalogue() -> list[Exercise]:
    """Every exercise, by chapter and name."""
    import grader.exercises

    found = [find(module.name) for module in pkgutil.iter_modules(grader.exercises.__path__) if module.name != "common"]
    return sorted(found, key=lambda exercise: (exercise.chapter, exercise.name))


def owner(function: str) -> Exercise:
    """The exercise of that name, or else the one that has a function so called. Raises BadRequest."""
    found = [exercise for exercise in catalogue() if function in exercise.function_names]
    if function in names() or not found:
        return find(function)
    if len(found) > 1:
        which = " and ".join(exercise.name for exercise in found)
        raise BadRequest(f"{function} belongs to {which}: say which with exercise=...")
    return found[0]


def find(name: str) -> Exercise:
    """The exercise called `name`. Raises BadRequest if there is none."""
    if name.isidentifier() and name != "common":
        try:
            module = importlib.import_module(f"grader.exercises.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"grader.exercises.{name}":
                raise
        else:
            found: Exercise = module.EXERCISE
            return found
    raise BadRequest(f"no exercise is called {name!r}; there is {', '.join(names())}")
