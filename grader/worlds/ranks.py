"""Ranks: functions that are called on every rank of a torch.distributed world, simulated or real (see `rankruns`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from grader.exercise import Draw, Grading
from grader.lost import Lost, Unable
from grader.ranks.engines import DEFAULT_LIMITS
from grader.ranks.program import CallResult, Function, Limits, Program, Run
from grader.sandbox import LINUX
from grader.submission import Submission
from grader.verdict import Diagnosis, Kind
from grader.worlds import twins
from grader.worlds.cases import Case
from grader.worlds.rankruns import Outcome as Outcome
from grader.worlds.rankruns import RankRuns


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
        program = self.program(grading.submission)
        return RankBench(grading, program, self.drawn(grading.seed), self.limits, with_twins=self.p2p_only)


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


class RankBench(RankRuns):
    """What checks call."""

    def bench(self, check: str) -> RankBench:
        return self

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
