"""Judges of gossip_sgd's local_sgd: what the local steps find, and when ranks communicate."""

from __future__ import annotations

import itertools
import math

import numpy as np

from grader.exercises.common import checks, plain
from grader.exercises.gossip_sgd import judging, mixing
from grader.exercises.gossip_sgd.judging import first_wrong, near, place, rows_of
from grader.exercises.gossip_sgd.mixing import Array, Training
from grader.ranks.program import CallResult
from grader.trace.events import Operation
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

MARK = 0.00137  # virtual seconds of a local step, as in the harness


def trained(bench: RankBench, group: str) -> Outcome:
    """Every local step finds the parameters that it should, and the right ones are left."""
    for case, result in bench.calls(group):
        training: Training = case.expected
        _stepped(bench, case, result)
        got, right = rows_of(bench, case, result, training.steps + 1), training.rows()
        checks.undisturbed(bench, case, result)
        wrong = first_wrong(got, right, training)
        if wrong is None:
            continue
        step, rank, element = wrong
        one, other = plain.apart(float(got[wrong]), float(right[wrong]))
        when = f"after {step} of {training.steps} steps" if step else "before the first step"
        what = (
            f"With {case.label}: {when}, rank {rank} has {one} instead of {other} in "
            f"{place(training.shapes, element)}. {_training_habit(training, got, right)}"
        )
        raise bench.lost(case, "wrong_result", what.strip(), rank, other, one)
    return bench.picture(group)


def _stepped(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost where a rank did not make its local steps, each once and in order, counted from 0 or 1."""
    training: Training = case.expected
    for rank in range(case.ranks):
        steps = checks.field(result, rank, "steps")
        if steps not in ([*range(training.steps)], [*range(1, training.steps + 1)]):
            count = len(steps) if isinstance(steps, list) else 0
            made = f"{count} local steps" if count != training.steps else f"local steps {steps}"
            what = (
                f"With {case.label}: rank {rank} made {made}. Call local_step(step) once for each of the "
                f"{training.steps} steps, 0 to {training.steps - 1}."
            )
            raise bench.lost(case, "wrong_result", what, rank, f"{training.steps} steps", made)


def _training_habit(training: Training, got: Array, right: Array) -> str:
    for wrong, sentence in mixing.training_mistakes(training):
        if not near(wrong, right) and near(got, wrong, 1e-3):
            return sentence
    step = next((step for step in training.meetings if not near(got[step], right[step])), 0)
    ends = np.cumsum([0, *map(math.prod, training.shapes)])
    bad = [k for k, (a, b) in enumerate(itertools.pairwise(ends)) if not near(got[..., a:b], right[..., a:b])]
    if bad and set(bad) <= set(training.frozen):
        return "Only the parameter that requires no gradient is wrong. Handle all of model.parameters(), not only the trained ones."
    if training.elastic is not None and not near(got[0, 0], right[0, 0]):
        return (
            "Rank 0's own parameters changed before its first step. The center begins as the parameters that rank 0 has "
            "when local_sgd is called, also when it is called again."
        )
    if training.elastic is None and step and not near(got[step], got[step, :1]):
        return f"After step {step} the ranks differ. Put the mean over all ranks into every rank's model."
    return ""


@checks.judged(RankBench.calls, "periods")
def periods(bench: RankBench, case: Case, result: CallResult) -> None:
    """Ranks communicate after steps period, 2 period, ... and at no other time; before the first step they may."""
    training: Training = case.expected
    _stepped(bench, case, result)
    for rank in range(case.ranks):
        spans = [span for span in result.trace.spans if span.rank == rank and span.what == "compute"]
        marks = sorted(span.until for span in spans if abs(span.until - span.since - MARK * 1e9) <= 2)
        if len(marks) != training.steps:
            raise bench.lost(case, "sandbox_violation", f"With {case.label}: virtual time was tampered with.", rank)
        operations: dict[int, list[Operation]] = {}
        for op in result.trace.operations(rank):
            after = sum(mark <= op.posted for mark in marks)
            last = after == training.steps and not checks.sent_by(
                op, range(case.ranks)
            )  # a barrier in the end does no harm
            if op.name != "new_group" and not last:
                operations.setdefault(after, []).append(op)
        _when(bench, case, rank, operations)


def _when(bench: RankBench, case: Case, rank: int, operations: dict[int, list[Operation]]) -> None:
    training: Training = case.expected
    wanted = _all(training.meetings)
    early = sorted(set(operations) - {0, *training.meetings})
    missing = [step for step in training.meetings if step not in operations]
    if early:
        names = ", ".join(dict.fromkeys(op.name for op in operations[early[0]]))
        count = sum(checks.sent_by(op, range(case.ranks)) for op in operations[early[0]])
        why = ""
        if early == [training.steps]:
            why = " Do not average the steps that are left over at the end."
        elif (often := len(set(operations) - {0})) >= training.steps - 1:
            why = f" It communicated after {often} of {training.steps} steps. Local SGD is there to save exactly that."
        what = (
            f"With {case.label}: rank {rank} communicated after step {early[0]} ({names}, {count:,} bytes sent). Ranks "
            f"must communicate {wanted}.{why}"
        )
        raise bench.lost(case, "too_many_bytes", what, rank, wanted, f"also after step {early[0]}")
    if missing:
        what = f"With {case.label}: rank {rank} did not communicate after step {missing[0]}. Ranks must meet {wanted}."
        raise bench.lost(case, "too_few_bytes", what, rank, wanted, f"not after step {missing[0]}")


def _all(steps: tuple[int, ...]) -> str:
    if not steps:
        return "after no step here, because there are fewer steps than a period"
    return f"after step{'s' * (len(steps) > 1)} {', '.join(map(str, steps))}"


def real(bench: RankBench) -> Outcome:
    """Both functions on real processes."""
    judging.exact(bench, "real_mix")
    return trained(bench, "real_training")
