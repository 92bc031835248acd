"""An exercise, its checks and points; the registry; and the grading of one submission.

A check judges runs of the learner's function. Runs are shared: all cases for one number of ranks are called in one
world, and only where that world ended badly is each group of cases run in a world of its own, so that one mistake
does not cost the points of checks it has nothing to do with.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grader import twins
from grader.ranks.engines import Engines, NeedsProcesses, Session, unsupported
from grader.ranks.network import ROUNDS, Network
from grader.ranks.processes import DEFAULT_LIMITS, BoxFailed
from grader.ranks.program import Call, CallResult, Function, Limits, Program, Run, Strided, outputs_text
from grader.submission import BadRequest, Submission
from grader.trace import diagram
from grader.trace.events import Trace
from grader.verdict import CheckResult, Diagnosis, Kind, Verdict

World = tuple[int, str, Network]
HOPELESS = ("syntax_error", "missing_function")
LIMITS_AFTER_A_TIMEOUT = Limits(cpu_seconds=0.4, idle_seconds=1.0, silent_seconds=4.0)
MOST_TIMEOUTS = 3  # runs that never ended, after which no further one is tried


@dataclass(frozen=True, eq=False)
class Case:
    """One call that is made on every rank of a world: `arguments[rank]` are rank's positional arguments.

    `function` is the one that is called, the exercise's first if it is empty. `engine` and `network` say where it is
    run if the person who grades does not say otherwise. `expected` is the check's own, for its judge.
    """

    group: str
    label: str
    arguments: tuple[tuple[Any, ...], ...]
    function: str = ""
    engine: str = "sim"
    network: Network = ROUNDS
    expected: Any = None

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
        return self.ranks, self.engine, self.network

    @property
    def call(self) -> Call:
        return Call(self.arguments, self.function)


@dataclass(frozen=True)
class Outcome:
    """A case and what came of it: the finished call, or the run that ended before it was done."""

    case: Case
    result: CallResult | None
    run: Run

    @property
    def trace(self) -> Trace:
        return self.result.trace if self.result else self.run.trace


class Lost(Exception):  # noqa: N818 - reads as what happened to the points
    """Raised by a check: points are lost, and why."""

    def __init__(self, diagnosis: Diagnosis, outcome: Outcome | None = None) -> None:
        super().__init__(diagnosis.message)
        self.diagnosis, self.outcome = diagnosis, outcome


@dataclass(frozen=True)
class Check:
    """One thing that must be right. `judge` returns the outcome to draw, or raises Lost."""

    name: str
    title: str
    points: float
    judge: Callable[[Bench], Outcome]


@dataclass(frozen=True)
class Exercise:
    """One graded exercise: what the learner writes, and what right means.

    `functions` are what the learner defines. `cases` draws fresh inputs from a generator; `minutes` and `difficulty`
    (1 to 3) are for people.
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

    @property
    def max_points(self) -> float:
        return sum(check.points for check in self.checks)

    @property
    def function_names(self) -> tuple[str, ...]:
        return tuple(function.name for function in self.functions)


class Draw:
    """Fresh inputs: the same for the same seed, different for every label."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def generator(self, label: str) -> np.random.Generator:
        return np.random.default_rng([self._seed, *label.encode()])


class Bench:
    """The runs of one grading. `engine` is auto (each case where it says), or the one engine for all of them."""

    def __init__(
        self, exercise: Exercise, submission: Submission, engines: Engines, seed: int, engine: str = "auto"
    ) -> None:
        self.exercise, self.engines, self.seed = exercise, engines, seed
        self.limits = exercise.limits
        self.program = Program(submission.source, submission.name, exercise.functions, exercise.p2p_only)
        self._worlds: dict[World, list[Case]] = {}
        cases = list(exercise.cases(Draw(seed)))
        self._twins = twins.twins(cases, seed) if exercise.p2p_only and engine == "auto" else {}
        for case in (*self._twins.values(), *cases):
            if engine != "auto":
                case = replace(case, engine=engine)
            if case.engine == "sim" or (not unsupported(case.engine, case.ranks) and case.network == ROUNDS):
                self._worlds.setdefault(case.world, []).append(case)
        self._done: dict[Case, Outcome] = {}
        self._failed: dict[Case, Run] = {}
        self._endless: list[Run] = []
        self._beyond: dict[Case, str] = {}  # what cannot be judged, and why

    @property
    def engine_names(self) -> tuple[str, ...]:
        """The engines that the cases are run on."""
        used = {engine for _, engine, _ in self._worlds}
        return tuple(name for name in ("sim", "gloo", "nccl") if name in used)

    def prepare(self) -> Diagnosis | None:
        """Run every case, optimistically in one run per world. A submission that cannot even be loaded, and so fails
        every check, gives the Diagnosis; anything else is left to the checks."""
        worlds = deque(sorted(self._worlds, key=lambda world: (world[0], world[1] != "sim")))
        with self.engines.sim.session() as session, ThreadPoolExecutor(1) as other:
            smallest = [worlds.popleft() for _ in range(min(2, len(worlds)))]
            try:
                for world in smallest:  # most mistakes show here: what is left is then judged case by case
                    run = self._run(self._worlds[world], session)
                    if run is not None and not run.finished:
                        worlds.clear()
                        break
                helping = other.submit(self._work_off, worlds)
                self._work_off(worlds, session)
                helping.result()
            except KeyboardInterrupt:
                worlds.clear()
                self.engines.close()  # and with it the world that the other thread waits for
                raise
        if run and not run.loaded and run.diagnoses and run.diagnoses[0].kind in HOPELESS:
            return run.diagnoses[0]
        return None

    def _work_off(self, worlds: deque[World], session: Session | None = None) -> None:
        """Run what is left of `worlds`, the largest first: they take longest."""
        with contextlib.ExitStack() as stack:
            mine = session or stack.enter_context(self.engines.sim.session())
            while True:
                try:
                    world = worlds.pop()
                except IndexError:  # another thread may have taken the last one
                    return
                self._run(self._worlds[world], mine)

    def calls(self, group: str) -> Iterator[tuple[Case, CallResult]]:
        """The finished calls of `group`, fewest ranks first.

        Raises Lost at the first that did not finish, and NotRun if not one of them can be judged.
        """
        judged = False
        for world in sorted(self._worlds, key=lambda world: world[0]):
            cases = [case for case in self._worlds[world] if case.group == group and case not in self._beyond]
            if any(case not in self._done and case not in self._failed for case in cases):
                self._run(cases)
            for case in cases:
                if case in self._beyond or case in self._twins.values():
                    continue
                if case in self._failed:
                    run = self._failed[case]
                    raise Lost(run.diagnoses[0], Outcome(case, None, run))
                outcome = self._done[case]
                assert outcome.result is not None
                if case in self._twins:
                    self._compare(case, outcome.result)
                judged = True
                yield case, outcome.result
        if not judged:
            raise self._not_run(group)

    def _compare(self, case: Case, simulated: CallResult) -> None:
        """Raise Lost where a simulated call's twin on real processes did otherwise."""
        twin = self._twins[case]
        if twin not in self._done and twin not in self._failed:
            self._run([twin])
        if twin in self._failed:
            run = self._failed[twin]
            found = run.diagnoses[0]
            raise Lost(replace(found, message=f"On real processes: {found.message}"), Outcome(twin, None, run))
        real = self._done[twin]
        assert real.result is not None
        found_different = twins.difference(case, simulated, real.result, self.program.file)
        if found_different:
            raise Lost(found_different, real)

    def _not_run(self, group: str) -> NotRun:
        why = next((why for case, why in self._beyond.items() if case.group == group), "")
        if why:
            file = self.program.file
            return NotRun(f"Not judged: {file} cannot be simulated ({why}), and this check is about simulated time.")
        return NotRun("Not run: this check needs another engine than the one that was asked for.")

    def outcome(self, case: Case) -> Outcome:
        return self._done[case]

    def lost(
        self, case: Case, kind: Kind, message: str, rank: int | None = None, expected: str = "", got: str = ""
    ) -> Lost:
        """What a check raises where the finished call of `case` loses its points."""
        found = Diagnosis(kind, message, rank, self.program.file, None, expected or None, got or None)
        return Lost(found, self.outcome(case))

    def picture(self, group: str, ranks: int = 4) -> Outcome:
        """The outcome of `group` to draw when all is well. Raises NotRun if not one of its cases can be judged."""
        cases = [case for case in self._done if case.group == group and case not in self._twins.values()]
        if not cases:
            raise self._not_run(group)
        return self._done[min(cases, key=lambda case: abs(case.ranks - ranks))]

    def _run(self, cases: Sequence[Case], session: Session | None = None) -> Run | None:
        """Call `cases` one after another in one world, and keep those that finished."""
        ranks, engine, network = cases[0].world
        if len(self._endless) >= MOST_TIMEOUTS:
            self._failed |= dict.fromkeys(cases, self._endless[-1])
            return self._endless[-1]
        calls = [case.call for case in cases]
        try:
            run = self.engines.run(engine, self.program, ranks, calls, self.seed, self.limits, network, session)
        except NeedsProcesses as error:
            self._beyond |= dict.fromkeys(cases, str(error))  # what fits on processes is judged there
            return None
        for case, result in zip(cases, run.calls, strict=False):
            self._done[case] = Outcome(case, result, run)
        if not run.finished:
            self._failed[cases[min(len(run.calls), len(cases) - 1)]] = run  # it may end after the last call
            if run.ending == "timed_out":
                self._endless.append(run)
                printed, box = self.limits.stdout_bytes, self.limits.box
                self.limits = replace(LIMITS_AFTER_A_TIMEOUT, stdout_bytes=printed, box=box)
        return run


class NotRun(Exception):  # noqa: N818 - says what is the case
    """Not one of a check's cases can be judged, and why: no points."""


def draw(outcome: Outcome) -> str | None:
    """The space-time diagram of an outcome, as SVG text; None of one rank that communicates with nobody."""
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
) -> Verdict:
    """Grade one submission: every check of the exercise, with inputs drawn from `seed`.

    Decided here, outside the learner's processes, and fails closed: what cannot be judged gives no points.
    """
    started = time.monotonic()
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    bench = Bench(exercise, submission, engines, seed, engine)
    results: list[CheckResult] = []
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
    for check in checks:
        if hopeless:
            yield _result(check, "fail", hopeless)
            continue
        try:
            outcome = check.judge(bench)
        except NotRun as error:
            yield _result(check, "skipped", Diagnosis("unsupported_engine", str(error)))
        except Lost as lost:
            yield _result(check, "fail", lost.diagnosis, lost.outcome)
        except BoxFailed as error:
            yield _result(check, "error", Diagnosis("crash", f"Not graded: {error}."))
        else:
            yield _result(check, "pass", None, outcome)


def _result(check: Check, status: Any, diagnosis: Diagnosis | None, outcome: Outcome | None = None) -> CheckResult:
    points = check.points if status == "pass" else 0.0
    picture = draw(outcome) if outcome is not None else None
    output = outputs_text(outcome.run) if outcome is not None else ""
    return CheckResult(check.name, check.title, points, check.points, status, diagnosis, picture, output)


def names() -> list[str]:
    """The names of all exercises, by chapter."""
    return [exercise.name for exercise in catalogue()]


def catalogue() -> list[Exercise]:
    """Every exercise, by chapter and name."""
    import grader.exercises

    found = [find(module.name) for module in pkgutil.iter_modules(grader.exercises.__path__) if module.name[0] != "_"]
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
    if name.isidentifier() and not name.startswith("_"):
        try:
            module = importlib.import_module(f"grader.exercises.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"grader.exercises.{name}":
                raise
        else:
            found: Exercise = module.EXERCISE
            return found
    raise BadRequest(f"no exercise is called {name!r}; there is {', '.join(names())}")
