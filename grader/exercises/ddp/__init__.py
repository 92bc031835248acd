"""DistributedModel(module, bucket_bytes): data-parallel training as one process would train, gradients in buckets.

What is asked for is what PyTorch's DistributedDataParallel does (Li et al. 2020, sections 3.2 and 4: buckets, overlap
with the backward pass, unused parameters, no_sync); bytes are those of a ring all-reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from grader.exercise import Check, Exercise
from grader.exercises.common import checks
from grader.exercises.ddp import answers, traffic, training
from grader.exercises.ddp.training import Job
from grader.lost import Lost
from grader.ranks.program import CallResult, Function
from grader.verdict import Diagnosis
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench, Ranks

BUFFERS = {"scale": "buffer", "shift": "buffer (persistent=False, so not in the state_dict)"}


def _gradients(result: CallResult, step: int) -> list[dict[str, Any]]:
    """Every rank's gradients after a step."""
    found = []
    for rank in range(len(result.returned)):
        steps = checks.field(result, rank, "gradients")
        mine = steps[step] if isinstance(steps, list) and len(steps) > step else None
        found.append(mine if isinstance(mine, dict) else {})
    return found


@checks.judged(RankBench.calls, "broadcast")
def _broadcast(bench: RankBench, case: Case, result: CallResult) -> None:
    """After construction every rank has rank 0's parameters and buffers."""
    values: list[training.Values] = case.expected
    for rank in range(case.ranks):
        for name, right in values[0].items():
            got = checks.array(checks.field(result, rank, name))
            if got is None or not np.array_equal(got, right):
                what = BUFFERS.get(name, "parameter")
                said = f"after construction the {what} {name} on rank {rank} {_origin(values, rank, name, got)}"
                raise bench.lost(case, "wrong_result", f"With {case.label}: {said}", rank)
    checks.clean(bench, case, result)


def _origin(values: list[training.Values], rank: int, name: str, got: training.Array | None) -> str:
    """Where a parameter after construction comes from, if it is not rank 0's."""
    for other, theirs in enumerate(values):
        if got is not None and np.array_equal(got, theirs[name]):
            if other == rank:
                return "still has the rank's own value. Broadcast rank 0's, otherwise the ranks train different models."
            return f"has rank {other}'s value. Broadcast rank 0's."
    if got is not None and np.allclose(got, sum(theirs[name] for theirs in values) / len(values), atol=1e-6):
        return "has the mean of the ranks' values. Broadcast rank 0's value instead."
    return "does not have rank 0's value. Broadcast rank 0's parameters and buffers."


def _values(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult]]:
    """The calls of `group`, each found right: every step's gradients, and the parameters after the last."""
    for case, result in bench.calls(group):
        checks.clean(bench, case, result)
        _right_steps(bench, case, result)
        yield case, result


def _right_steps(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost where gradients or parameters are not what they must be."""
    job: Job = case.expected
    if case.by == "accumulate":
        batches = range(len(job.x[0]))
        steps, parameters = [training.step_of(job, job.values, batches)], None
        last = training.step_of(job, job.values, batches[-1:])
    else:
        (steps, parameters), last = training.trained(job), None
    for number, step in enumerate(steps):
        before = steps[number - 1] if number else None
        wrong = answers.first_wrong(job, step, _gradients(result, number), last, before)
        if wrong:
            when = f", step {number + 1} of {len(steps)}" if len(steps) > 1 else ""
            message = f"With {case.label}{when}: {wrong.message}"
            raise bench.lost(case, "wrong_result", message, wrong.rank, wrong.expected, wrong.got)
    for name, right in (parameters or {}).items() if len(steps) > 1 else ():
        for rank in range(job.ranks):
            got = checks.array((checks.field(result, rank, "parameters") or {}).get(name))
            moved = float(np.abs(right - job.values[name]).max())
            if name != "scale" and not training.close(got, right, 30 * moved + 1e-2):
                message = (
                    f"With {case.label}: all gradients are right, but after {len(steps)} steps the parameter {name} on "
                    f"rank {rank} is not that of one process on all the data. Let only the optimizer change parameters."
                )
                raise bench.lost(case, "wrong_result", message, rank)


def _uneven(bench: RankBench) -> Outcome:
    """Gradients are right where ranks use other layers; in float64 only where those of a whole model are."""
    outcome = checks.right(_values, "uneven")(bench)
    if _passes(checks.right(_values, "gradients"), bench):
        checks.right(_values, "uneven_float64")(bench)
    return outcome


def _no_sync(bench: RankBench) -> Outcome:
    """Under no_sync() nothing is sent; the next step outside of it averages all that was accumulated."""
    for case, result in bench.calls("no_sync"):
        for rank in range(case.ranks):
            step = traffic.stretches(bench, case, result, rank)[0]
            inside = step.operations(result.trace, rank, step.over)
            if inside:
                todo = "Send nothing there."
                if case.expected.nested:
                    todo = "When the inner no_sync() ends, the outer one still holds: put back what was before."
                message = (
                    f"With {case.label}: rank {rank} communicated inside no_sync() ({inside[0].name} of "
                    f"{inside[0].size:,} bytes{f' and {len(inside) - 1} more' * (len(inside) > 1)}). {todo}"
                )
                found = Diagnosis("too_many_messages", message, rank, bench.program.file, inside[0].line or None, "0",
                                  str(len(inside)))  # fmt: skip
                raise Lost(found, bench.outcome(case))
    timed = list(_values(bench, "no_sync"))
    if _passes(checks.right(_values, "uneven"), bench):
        for _ in _values(bench, "left_out"):
            pass
    if _passes(traffic.overlap, bench):
        for case, result in timed:
            for rank in range(case.ranks):
                traffic.overlaps_again(bench, case, result, rank)
    return bench.picture("no_sync")


def _passes(judge: Callable[[RankBench], Outcome], bench: RankBench) -> bool:
    """Whether another check is passed: who loses its points does not lose those of this one for the same mistake."""
    try:
        judge(bench)
    except Lost:
        return False
    return True


EXERCISE = Exercise(
    name="ddp",
    chapter="07",
    title="Distributed data parallel",
    minutes=75,
    difficulty=3,
    world=Ranks(
        (Function("DistributedModel"),),
        training.cases,
        limits=checks.TRAINING,
        banned=("torch.nn.parallel.DistributedDataParallel",),
    ),
    checks=(
        Check("broadcast", "Rank 0's parameters and buffers on all ranks at construction", 3, _broadcast),
        Check("gradients", "The mean over ranks, also tied, frozen and float64", 4, checks.right(_values, "gradients")),
        Check("uneven", "Parameters unused on some or all ranks, uneven depth", 3, _uneven),
        Check("training", "Four steps of SGD as one process", 2, checks.right(_values, "training")),
        Check("collectives", "One collective for each bucket, and one more", 2, traffic.collectives),
        Check("bytes", "At most 1.02 times a ring's bytes of the gradients", 2, traffic.bytes_sent),
        Check("overlap", "The first all-reduce begins before the backward pass ends", 3, traffic.overlap),
        Check("no_sync", "Nothing sent under no_sync(), and nothing lost", 3, _no_sync),
        Check("reality", "Real gloo processes", 2, checks.right(_values, "reality")),
    ),
)
