"""A job: one function of the learner's that is given workers, real processes that die and stand still."""

from __future__ import annotations

from dataclasses import dataclass

from grader.exercise import Grading
from grader.jobs.bench import JobBench
from grader.worlds.shared import OneBench


@dataclass(frozen=True)
class Jobs:
    """`function` is the one that is called with workers (see `jobs`)."""

    function: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.function,)

    def open(self, grading: Grading) -> OneBench:
        bench = JobBench(grading.machine.warm, grading.submission, self.function, grading.seed)
        return OneBench(bench, ("processes",))
