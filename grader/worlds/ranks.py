"""Ranks: functions that are called on every rank of a torch.distributed world, simulated or real.

Runs are shared: all cases for one number of ranks are called in one world, and only where that world ended badly is
each group of cases run in a world of its own, so that one mistake does not cost the points of checks it has nothing to
do with.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from grader.exercise import Draw, Grading
from grader.lost import Lost, Unable
from grader.ranks.engines import DEFAULT_LIMITS, unsupported
from grader.ranks.network import ROUNDS
from grader.ranks.program import HOST, Call, CallResult, Function, Limits, Program, Run
from grader.ranks.simulated import NeedsProcesses, Session
from grader.sandbox import LINUX
from grader.sandbox.warm import BoxFailed
from grader.submission import Submission
from grader.trace.events import Trace
from grader.verdict import Diagnosis, Kind
from grader.worlds import twins
from grader.worlds.cases import Case, Key

HOPELESS = ("syntax_error", "missing_function")
LIMITS_AFTER_A_TIMEOUT = Limits(
    cpu_seconds=0.4, load_cpu_seconds=0.8, idle_seconds=1.0, silent_seconds=4.0, wall_seconds=8.0
)
T = TypeVar("T")
REAL = ("nccl", "gloo")  # for tensors on GPUs: what is faster, and what needs no GPU for each rank
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


def _one_way(seed: int) -> int:
    """What ranks are told to begin from: who knew the seed itself could draw all inputs, and need no messages."""
    return int.from_bytes(hashlib.blake2b(b"%d" % seed, digest_size=4, person=b"ranks").digest(), "little") >> 1


@dataclass(frozen=True)
class Ranks:
    """Functions that are called on ranks. `cases` draws fresh inputs.

    `p2p_only` forbids collectives, `banned` are dotted names of what must not be used, and modules in `imported` are
    slow to import and there before the submission. `in_box` is a module of the exercise's own whose functions call the
    learner's where data alone cannot (see `ranks.harness`): if none is named, the in_box.py beside the module that
    draws the cases, where there is one. `counted`: judges need what the kernel counted of real calls.
    """

    functions: tuple[Function, ...]
    cases: Callable[[Draw], Iterable[Case]]
    p2p_only: bool = False
    limits: Limits = DEFAULT_LIMITS
    in_box: Path | None = None
    banned: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    counted: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(function.name for function in self.functions)

    def drawn(self, seed: int) -> list[Case]:
        """The cases, with the inputs of this seed."""
        return list(self.cases(Draw(seed)))

    def program(self, submission: Submission) -> Program:
        """What the ranks run."""
        return Program(
            submission.source, submission.name, self.functions, self.p2p_only,
            harness=self.harness, banned=self.banned, imported=self.imported, counted=self.counted,
        )  # fmt: skip

    @property
    def harness(self) -> str:
        drawn_by = getattr(sys.modules.get(self.cases.__module__), "__file__", None) or __file__
        in_box = self.in_box or Path(drawn_by).with_name("in_box.py")
        return in_box.read_text(encoding="utf-8") if self.in_box or in_box.is_file() else ""

    def open(self, grading: Grading) -> RankBench:
        return RankBench(self, grading)


@dataclass(frozen=True)
class Crashes(Ranks):
    """Ranks whose program is killed and started again: a supervisor in the box makes processes that run it, as `in_box`
    asks (see `ranks.lives`), whatever engine a case names. Without functions it is run as a whole, and `script` is the
    name of the one in a notebook's cell that check() is given."""

    script: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return super().names or (self.script,)

    def drawn(self, seed: int) -> list[Case]:
        return [replace(case, engine="gloo", telling=False) for case in super().drawn(seed)]

    def program(self, submission: Submission) -> Program:
        return replace(super().program(submission), apart=True)


class RankBench:
    """The runs of one grading. Where its engine is auto each case is run where it says, else on that one."""

    def __init__(self, world: Ranks, grading: Grading) -> None:
        self._machine, self.seed = grading.machine, grading.seed
        on_host = grading.device == HOST
        self.limits, engine, self._alone = world.limits, grading.engine, grading.alone
        if not on_host:  # where a rank's first use of its GPU takes seconds
            self.limits = replace(
                world.limits, cpu_seconds=60, load_cpu_seconds=60, idle_seconds=60, silent_seconds=120, wall_seconds=300
            )
        self._first_limits = self.limits
        self.program = replace(world.program(grading.submission), device=grading.device)
        self._worlds: dict[Key, list[Case]] = {}
        self._told_seed = _one_way(self.seed)
        cases = world.drawn(self.seed)
        if engine == "auto" and unsupported("gloo", 1):
            engine = "sim"
        self._twins = twins.twins(cases, self.seed) if world.p2p_only and engine == "auto" and on_host else {}
        for case in (*self._twins.values(), *cases):
            if engine != "auto":
                case = replace(case, engine=engine)
            elif not on_host and case.network == ROUNDS and not case.faults and not case.simulated:
                case = replace(
                    case, engine=next((one for one in REAL if not unsupported(one, case.ranks)), case.engine)
                )
            if case.engine == "sim" or (
                case.network == ROUNDS
                and not case.faults
                and not case.simulated
                and not unsupported(case.engine, case.ranks)
            ):
                self._worlds.setdefault(case.world, []).append(case)
        self._own = contextlib.ExitStack()
        self._session: Session | None = None
        self._left: deque[Key] = deque()  # worlds that nobody has begun to run
        self._coming: dict[Key, Future[None]] = {}
        self._helpers: list[threading.Thread] = []
        self._sessions: list[Session] = []  # of the helpers
        self._asked_in_vain = False  # what came of a call that was to explain a wrong one
        self._done: dict[Case, Outcome] = {}
        self._failed: dict[Case, Run] = {}
        self._endless: dict[str, list[Run]] = defaultdict(list)  # by engine
        self._beyond: dict[Case, str] = {}  # what cannot be judged, and why
        self._compared: dict[Case, Lost | None] = {}  # with its twin

    @property
    def engines(self) -> tuple[str, ...]:
        used = {engine for _, engine, *_ in self._worlds}
        return tuple(name for name in ("sim", "gloo", "nccl") if name in used)

    def prepare(self) -> Diagnosis | None:
        """Have every case run, optimistically in one run per world: the smallest of several ranks now, the others while
        checks are judged, which wait for those that they need. A submission that cannot even be loaded, and so fails
        every check, gives the Diagnosis; anything else is left to the checks. A check that is alone runs its own."""
        if not self._worlds or self._alone:
            return None
        worlds = deque(sorted(self._worlds, key=lambda world: (world[0], world[1] != "sim")))
        session = self._own.enter_context(self._machine.session())
        smallest = [worlds.popleft()]
        if smallest[0][0] == 1 and worlds:  # what one rank does shows few mistakes
            smallest.append(worlds.popleft())
        for world in smallest:
            run = self._run(self._worlds[world], session)
            if run is not None and not run.finished:
                worlds.clear()  # most mistakes show here: what is left is then judged case by case
                break
        self._left, self._coming = worlds, {world: Future() for world in worlds}
        takes = [worlds.pop, worlds.popleft][: len(worlds)]  # from both ends: the largest take longest, and what is
        warm = worlds.popleft if worlds and worlds[-1][1] != "sim" else worlds.pop  # wrong is shown by the smallest
        for take in takes:
            mine = session if take == warm or len(takes) == 1 else None
            self._helpers.append(threading.Thread(target=self._work_off, args=(take, mine), daemon=True))
            self._helpers[-1].start()
        if run and not run.loaded and run.diagnoses and run.diagnoses[0].kind in HOPELESS:
            return run.diagnoses[0]
        return None

    def bench(self, check: str) -> RankBench:
        return self

    def together(self, works: Sequence[Callable[[], T]]) -> Iterator[T]:
        return (work() for work in works)

    def output(self, picture: Any) -> str:
        picture = getattr(picture, "outcome", picture)  # a picture of another kind may say of which run it is
        if not isinstance(picture, Outcome):
            return ""
        said = (picture.result.said if picture.result else picture.run.last).text()
        return f"With {picture.case.label}:\n{said}" if said else ""

    def close(self) -> None:
        """End everything that still runs."""
        self._left.clear()
        with self._own:
            for session in list(self._sessions):
                session.interrupt()
            for helper in self._helpers:
                helper.join()

    def _own_session(self) -> Session | None:
        """One for all runs of the check that is alone, and for those that explain a wrong one."""
        if self._session is None:
            self._session = self._own.enter_context(self._machine.session())
        return self._session

    def again(self, case: Case, inputs: Sequence[tuple[tuple[Any, ...], ...]]) -> tuple[CallResult, ...]:
        """What the function of `case` does with each of other `inputs`, simulated, and what its messages carry.

        It is to explain a wrong result, and decides nothing: empty where a call does not finish, and from then on; and
        where nobody wants it made again, because it runs in this process, for a debugger.
        """
        calls = [replace(case, arguments=arguments).call for arguments in inputs]
        run = self._explained(case, replace(self.program, contents=True), calls)
        self._asked_in_vain |= run is not None and not run.finished
        return run.calls if run is not None and run.finished else ()

    def raced(self, case: Case) -> Diagnosis | None:
        """What touches a buffer before its request is waited for, when `case` is made again and each read and write is
        watched. It is to explain a wrong result, as `again` is; None where nothing does, or nothing can be told."""
        run = self._explained(case, replace(self.program, watched=True), [case.call])
        found = [each for call in run.calls for each in call.diagnoses] if run is not None else []
        return next((each for each in found if each.kind == "race"), None)

    def _explained(self, case: Case, program: Program, calls: Sequence[Call]) -> Run | None:
        """A simulated run that is to explain a wrong one; None where there is none, or was none before."""
        session = self._own_session()
        if self._asked_in_vain or session is None:
            return None
        network, limits = case.network if case.engine == "sim" else ROUNDS, self._first_limits
        try:
            return self._machine.run(
                "sim", program, case.ranks, calls, self._told_seed, limits, network, session, strictly=True
            )
        except (NeedsProcesses, BoxFailed):
            self._asked_in_vain = True
            return None

    def _work_off(self, take: Callable[[], Key], session: Session | None) -> None:
        """Run the worlds that are left."""
        with contextlib.ExitStack() as stack:
            mine = session or stack.enter_context(self._machine.session())
            self._sessions += [mine] if mine else []
            while True:
                try:
                    world = take()
                except IndexError:  # another thread may have taken the last one
                    return
                try:
                    self._run(self._worlds[world], mine)
                    self._coming[world].set_result(None)
                except BaseException as error:  # for whoever waits for it
                    self._coming[world].set_exception(error)

    def _wait(self, *worlds: Key) -> None:
        """Until these have been run, where they are to be. Raises what running them raised."""
        for world in worlds:
            if world in self._coming:
                self._coming[world].result()

    def _now(self, cases: Sequence[Case], session: Session | None = None) -> None:
        """Run these by themselves, when nothing else is run: what others take decides what these may."""
        self._wait(*self._coming)
        self._run(cases, session)

    def calls(self, group: str) -> Iterator[tuple[Case, CallResult]]:
        """The finished calls of `group`, fewest ranks first.

        Raises Lost at the first that did not finish, and Unable if not one of them can be judged.
        """
        judged = False
        for world in sorted(self._worlds, key=lambda world: world[0]):
            cases = [case for case in self._worlds[world] if case.group == group]
            if cases:
                self._wait(world)
            cases = [case for case in cases if case not in self._beyond]
            if any(case not in self._done and case not in self._failed for case in cases):
                self._now(cases, self._own_session() if self._alone else None)
            for case in cases:
                if case in self._beyond or case in self._twins.values():
                    continue
                if case in self._failed:
                    run = self._failed[case]
                    raise Lost(self._in_its_case(case, run), Outcome(case, None, run))
                outcome = self._done[case]
                assert outcome.result is not None
                different = self._different(case)
                judged = True
                yield case, outcome.result  # what is wrong on simulated ranks, too, is no difference between them
                if different is not None:
                    raise different
        if not judged:
            raise self._not_run(group)

    def _in_its_case(self, case: Case, run: Run) -> Diagnosis:
        """Why a call did not finish; of a crash also which call it was."""
        found = run.diagnoses[0]
        if found.kind != "crash" or not run.loaded or case.faults or case in self._done:
            return found  # it was loaded, was asked to fail, or ended after its last call
        return replace(found, message=f'{found.message} This happened in the case "{case.label}".')

    def _different(self, case: Case) -> Lost | None:
        """What is lost where a simulated call's twin on real processes did otherwise."""
        if case in self._twins and case not in self._compared:
            self._compared[case] = self._compare(case, self._twins[case])
        return self._compared.get(case)

    def _compare(self, case: Case, twin: Case) -> Lost | None:
        self._wait(twin.world)
        if twin not in self._done and twin not in self._failed:
            self._now([twin])
        if twin in self._failed:
            run = self._failed[twin]
            found = self._in_its_case(twin, run)
            return Lost(replace(found, message=f"On real processes: {found.message}"), Outcome(twin, None, run))
        simulated, real, file = self._done[case].result, self._done[twin], self.program.file
        assert simulated is not None
        assert real.result is not None
        different = twins.difference(case, simulated, real.result, file)
        if different is not None and different.kind == "sandbox_violation":
            again = self._by_itself(twin)
            if again and twins.difference(twin, real.result, again, file):
                once_more = self._by_itself(twin)
                alike = once_more and not twins.difference(twin, again, once_more, file)
                different = (twins.after_others if alike else twins.never_the_same)(case, file)
            elif again and (simply := self._by_itself(case)) and not twins.difference(case, simply, again, file):
                different = twins.after_others(case, file)
        return Lost(different, real) if different is not None else None

    def _by_itself(self, case: Case) -> CallResult | None:
        """What comes of `case` where it is the only call; None where it does not finish."""
        run = self._machine.run(
            case.engine, self.program, case.ranks, [case.call], self._told_seed, self.limits, case.network
        )
        return run.calls[0] if run.finished else None

    def _not_run(self, group: str) -> Unable:
        why = next((why for case, why in self._beyond.items() if case.group == group), "")
        if why:
            file = self.program.file
            needs = "and this check needs a simulation" if LINUX else "and real processes need Linux"
            return Unable(f"Not judged, because {file} cannot be simulated ({why}) {needs}.")
        return Unable("Not run, because this check needs another engine. If you chose one with --engine, choose none.")

    def outcome(self, case: Case) -> Outcome:
        return self._done[case]

    def lost(
        self, case: Case, kind: Kind, message: str, rank: int | None = None, expected: str = "", got: str = ""
    ) -> Lost:
        """What a check raises where the finished call of `case` loses its points."""
        found = Diagnosis(kind, message, rank, self.program.file, None, expected or None, got or None)
        return Lost(found, self.outcome(case))

    def picture(self, group: str, ranks: int = 4) -> Outcome:
        """The outcome of `group` to draw when all is well. Raises Unable if not one of its cases can be judged."""
        self._wait(*(world for world, cases in self._worlds.items() if any(case.group == group for case in cases)))
        cases = [case for case in self._done if case.group == group and case not in self._twins.values()]
        if not cases:
            raise self._not_run(group)
        for different in map(self._different, cases):  # a judge may not have come to the end of the calls
            if different is not None:
                raise different
        return self._done[min(cases, key=lambda case: (abs(case.ranks - ranks), not case.telling))]

    def _run(self, cases: Sequence[Case], session: Session | None = None) -> Run | None:
        """Call `cases` one after another in one world, and keep those that finished."""
        ranks, engine, network, faults, _ = cases[0].world
        endless = self._endless[engine]
        if len(endless) >= MOST_TIMEOUTS:
            self._failed |= dict.fromkeys(cases, endless[-1])
            return endless[-1]
        calls = [case.call for case in cases]
        try:
            run = self._machine.run(
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
