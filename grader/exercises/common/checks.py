"""Checks that exercises have in common, and how their judges read what ranks did and returned."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from grader.exercises.common import plain
from grader.lost import Lost
from grader.ranks.program import CallResult, Limits, Strided
from grader.trace.events import SEND, Operation, ring_bytes
from grader.verdict import Diagnosis
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

# The finished calls of a group, each with its case first, and what was found of it; may raise Lost at one that is wrong.
Calls = Callable[[RankBench, str], Iterable[tuple[Any, ...]]]
Judge = Callable[[RankBench], Outcome]
T = TypeVar("T")
ABOUT = ("wrong_result",)  # what checks of values are about
TRAINING = Limits(cpu_seconds=5, load_cpu_seconds=10, idle_seconds=15)  # of ranks that train


def right(
    calls: Calls,
    group: str,
    *judges: Callable[..., None],
    others: Sequence[str] = (),
    because: str = "",
    ranks: int = 4,
) -> Judge:
    """All calls of `group`, and then of the `others`, are right: `calls` raises Lost at the first that is not, and each
    judge at what it finds wrong in one. With `because` what `calls` finds wrong is another check's matter. One of `group`
    on about so many `ranks` is drawn."""

    def judge(bench: RankBench) -> Outcome:
        for name in (group, *others):
            found = calls(bench, name)
            for each in if_right(found, because) if because else found:
                for one in judges:
                    one(bench, *each)
        return bench.picture(group, ranks)

    return judge


def right_ones(
    calls: Calls, bench: RankBench, groups: Sequence[str], because: str, kinds: Collection[str] = ABOUT
) -> Iterator[tuple[Any, ...]]:
    """The calls of those of `groups` in which all are right. Where there is none, what is wrong in the first is raised,
    as another check's matter."""
    losses = []
    for group in groups:
        try:
            found = list(calls(bench, group))
        except Lost as loss:
            losses.append(loss)
        else:
            yield from found
    if len(losses) == len(groups):
        with not_about(because, kinds):
            raise losses[0]


def where_right(
    calls: Calls, groups: Sequence[str], judge: Callable[..., None], because: str, kinds: Collection[str] = ABOUT
) -> Judge:
    """A check that asks a judge about the calls of those of `groups` in which all are right."""

    def check(bench: RankBench) -> Outcome:
        seen = ""
        for case, *found in right_ones(calls, bench, groups, because, kinds):
            judge(bench, case, *found)
            seen = seen or case.group
        return bench.picture(seen or groups[0])

    return check


def judged(calls: Calls, group: str, because: str = "") -> Callable[[Callable[..., None]], Judge]:
    """Makes a check of a judge of one call: it is asked about each of `group`."""
    return lambda judge: right(calls, group, judge, because=because)


def waited(values: Calls, group: str) -> Judge:
    """In all calls of `group` every request is waited for, and no buffer is touched while it is being sent."""
    return right(values, group, undisturbed)


def forbidden(result: CallResult) -> Diagnosis | None:
    """A call that is not allowed, in one that finished all the same: in a thread, or caught."""
    return next((found for found in result.diagnoses if found.kind == "forbidden_call"), None)


def allowed(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost for a call that is not allowed."""
    if found := forbidden(result):
        raise Lost(found, bench.outcome(case))


def undisturbed(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost for a race or a request that was left open: wrong values are its consequence."""
    if result.diagnoses:
        raise Lost(result.diagnoses[0], bench.outcome(case))


def clean(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost for what must not be in any call, right or wrong."""
    allowed(bench, case, result)
    undisturbed(bench, case, result)


def blamed(found: Diagnosis | None, result: CallResult, counted: str = "") -> Diagnosis | None:
    """Why a result is wrong: a race, if there was one. Otherwise, where something else was to be judged of it, that
    this was not, because what was `counted` is wrong."""
    if found is None or found.kind != "wrong_result":
        return found
    if result.diagnoses:
        return result.diagnoses[0]
    return not_judged(found, f"{counted} is wrong") if counted else found


@contextlib.contextmanager
def not_about(because: str, kinds: Collection[str] = ABOUT) -> Iterator[None]:
    """Where something of these `kinds`, which another check is about, keeps this one from judging: it says so, and
    `because`."""
    try:
        yield
    except Lost as loss:
        if loss.diagnosis.kind not in kinds:
            raise
        raise Lost(not_judged(loss.diagnosis, because), loss.picture, loss.schedule, loss.broke) from None


def if_right(values: Iterable[T], because: str) -> Iterator[T]:
    """The calls in `values`, for a check that is not about what is found wrong in them."""
    with not_about(because):
        yield from values


def not_judged(found: Diagnosis, because: str) -> Diagnosis:
    """`found` where it is not what a check is about, but keeps that from being judged."""
    return replace(found, message=f"Not judged, because {because}. {found.message}")


# ---- what a rank returned


def field(result: CallResult, rank: int, name: str) -> Any:
    """What the harness returned under `name`; None for anything that cannot be its answer."""
    returned = result.returned[rank]
    return returned.get(name) if isinstance(returned, dict) else None


def amount(result: CallResult, rank: int, name: str) -> float:
    """A count or a size that the harness returned; infinite for anything that cannot be one."""
    told = plain.number(field(result, rank, name))
    return told if told is not None and told >= 0 else math.inf


def array(value: Any) -> Any:
    """A tensor that a rank returned, as an array; None for anything else."""
    return value.view() if isinstance(value, Strided) else None


# ---- what a rank sent


def sent_by(operation: Operation, ranks: Sequence[int]) -> int:
    """Bytes that an operation of a group of `ranks` makes a rank send: of a collective those of a ring."""
    return operation.size if operation.kind == SEND else ring_bytes(operation, ranks)


def by_step(result: CallResult, rank: int, steps: int | None = None) -> list[list[Operation]]:
    """What a rank sent in each step, collectives too; steps begin where the harness computes. Where there are fewer
    marks than `steps`, as on real processes, all stands in one; what is marked after the last belongs to it."""
    marks = sorted(s.until for s in result.trace.spans if s.rank == rank and s.what == "compute" and not s.line)[:steps]
    operations = [op for op in result.trace.operations(rank) if op.kind == SEND or op.collective]
    if steps is not None and len(marks) != steps:
        return [operations]
    ends = [*marks[1:], math.inf]
    return [[op for op in operations if since <= op.posted < end] for since, end in zip(marks, ends, strict=True)]
