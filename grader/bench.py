"""The bench: the runs of one grading, from which the checks judge.

Runs are shared: all cases for one number of ranks are called in one world, and only where that world ended badly is
each group of cases run in a world of its own, so that one mistake does not cost the points of checks it has nothing to
do with.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from grader import twins
from grader.jobs.bench import JobBench
from grader.jobs.rays.bench import RayBench
from grader.jobs.rays.room import Rays
from grader.jobs.sparks.bench import SparkBench
from grader.jobs.sparks.engine import Spark
from grader.nodes.bench import NodeBench
from grader.ranks.engines import Engines, unsupported
from grader.ranks.network import ROUNDS
from grader.ranks.program import CallResult, Limits, Program, Run
from grader.ranks.simulated import NeedsProcesses, Session
from grader.submission import Submission
from grader.trace.events import Trace
from grader.verdict import Diagnosis, Kind

if TYPE_CHECKING:
    from grader.exercise import Case, Check, Exercise, World

HOPELESS = ("syntax_error", "missing_function")
LIMITS_AFTER_A_TIMEOUT = Limits(
    cpu_seconds=0.4, load_cpu_seconds=0.8, idle_seconds=1.0, silent_seconds=4.0, wall_seconds=8.0
)
MOST_TIMEOUTS = 3  # runs on one engine that never ended, after which no further one is tried there


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


class NotRun(Exception):  # noqa: N818 - says what is the case
    """Not one of a check's cases can be judged, and why: no points."""


def _one_way(seed: int) -> int:
    """What ranks are told to begin from: who knew the seed itself could draw all inputs, and need no messages."""
    return int.from_bytes(hashlib.blake2b(b"%d" % seed, digest_size=4, person=b"ranks").digest(), "little") >> 1


class Bench:
    """The runs of one grading. `engine` is auto (each case where it says), or the one engine for all of them."""

    def __init__(
        self, exercise: Exercise, submission: Submission, engines: Engines, seed: int, engine: str = "auto"
    ) -> None:
        self.exercise, self.engines, self.seed = exercise, engines, seed
        self.limits = exercise.limits
        self.program = Program(
            submission.source, submission.name, exercise.functions, exercise.p2p_only,
            harness=exercise.harness, banned=exercise.banned, imported=exercise.imported, apart=exercise.apart,
        )  # fmt: skip
        self.nodes = NodeBench(engines.warm, submission, exercise.nodes, exercise.watched, seed)
        self.jobs = JobBench(engines.warm, submission, exercise.job, seed)
        self.rays = RayBench(
            engines.lend(Rays), submission, exercise.ray, exercise.harness, seed, exercise.imported
        )  # fmt: skip
        self.spark = SparkBench(engines.lend(Spark), submission, seed)
        self._worlds: dict[World, list[Case]] = {}
        self._told_seed = _one_way(seed)
        cases = exercise.drawn(seed)
        self._twins = twins.twins(cases, seed) if exercise.p2p_only and engine == "auto" else {}
        for case in (*self._twins.values(), *cases):
            if engine != "auto":
                case = replace(case, engine=engine)
            if case.engine == "sim" or (
                case.network == ROUNDS and not case.faults and not unsupported(case.engine, case.ranks)
            ):
                self._worlds.setdefault(case.world, []).append(case)
        self._done: dict[Case, Outcome] = {}
        self._failed: dict[Case, Run] = {}
        self._endless: dict[str, list[Run]] = defaultdict(list)  # by engine
        self._beyond: dict[Case, str] = {}  # what cannot be judged, and why

    @property
    def engine_names(self) -> tuple[str, ...]:
        """The engines that the cases are run on."""
        used = {engine for _, engine, *_ in self._worlds} | ({"sim"} if self.exercise.nodes else set())
        exercise = self.exercise
        for name, asked in (("processes", exercise.job), ("spark", exercise.spark), ("ray", exercise.ray)):
            used |= {name} if asked else set()
        return tuple(name for name in ("sim", "gloo", "nccl", "processes", "spark", "ray") if name in used)

    def prepare(self) -> Diagnosis | None:
        """Run every case, optimistically in one run per world. A submission that cannot even be loaded, and so fails
        every check, gives the Diagnosis; anything else is left to the checks."""
        if not self._worlds:
            return self.nodes.hopeless()
        worlds = deque(sorted(self._worlds, key=lambda world: (world[0], world[1] != "sim")))
        with self.engines.session() as session, ThreadPoolExecutor(1) as other:
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
            found = run.diagnoses[0]
            # where one class is missing, the nodes beside it may be right
            return found if found.kind == "syntax_error" or not self.exercise.nodes else None
        return None

    def of(self, check: Check) -> Bench:
        """The bench of one check: with nodes in worlds of their own."""
        other = copy.copy(self)
        other.nodes = self.nodes.of(check.name)
        return other

    def close(self) -> None:
        """End what still runs."""
        self.nodes.close()
        self.rays.close()
        self.spark.close()

    def _work_off(self, worlds: deque[World], session: Session | None = None) -> None:
        """Run what is left of `worlds`, the largest first: they take longest."""
        with contextlib.ExitStack() as stack:
            mine = session or stack.enter_context(self.engines.session())
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
        ranks, engine, network, faults = cases[0].world
        endless = self._endless[engine]
        if len(endless) >= MOST_TIMEOUTS:
            self._failed |= dict.fromkeys(cases, endless[-1])
            return endless[-1]
        calls = [case.call for case in cases]
        try:
            run = self.engines.run(
                engine, self.program, ranks, calls, self._told_seed, self.limits, network, session, faults
            )
        except NeedsProcesses as error:
            self._beyond |= dict.fromkeys(cases, str(error))  # what fits on processes is judged there
            return None
        for case, result in zip(cases, run.calls, strict=False):
            self._done[case] = Outcome(case, result, run)
        if not run.finished:
            self._failed[cases[min(len(run.calls), len(cases) - 1)]] = run  # it may end after the last call
            if run.ending == "timed_out" or any(found.kind == "timeout" for found in run.diagnoses[:1]):
                endless.append(run)
            if run.ending == "timed_out":
                printed, box = self.limits.stdout_bytes, self.limits.box
                self.limits = replace(LIMITS_AFTER_A_TIMEOUT, stdout_bytes=printed, box=box)
        return run
