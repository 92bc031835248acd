"""Checks that exercises have in common, given how each finds the calls of a group right."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from grader.lost import Lost
from grader.ranks.program import CallResult
from grader.verdict import Diagnosis
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

# The finished calls of a group, each found right; raises Lost at one that is not.
Values = Callable[[RankBench, str], Iterable[tuple[Case, CallResult]]]
Judge = Callable[[RankBench], Outcome]


def right(values: Values, group: str) -> Judge:
    """All calls of `group` are right."""

    def judge(bench: RankBench) -> Outcome:
        for _ in values(bench, group):
            pass
        return bench.picture(group)

    return judge


def waited(values: Values, group: str) -> Judge:
    """In all calls of `group` every request is waited for, and no buffer is touched while it is being sent."""

    def judge(bench: RankBench) -> Outcome:
        for case, result in values(bench, group):
            if result.diagnoses:
                raise Lost(result.diagnoses[0], bench.outcome(case))
        return bench.picture(group)

    return judge


def forbidden(result: CallResult) -> Diagnosis | None:
    """A call that is not allowed, in one that finished all the same: in a thread, or caught."""
    return next((found for found in result.diagnoses if found.kind == "forbidden_call"), None)
