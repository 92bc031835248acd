"""Judges of pipeline's numbers: the gradients, the loss, what may be read, and requests that are waited for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from grader import says
from grader.exercises.common import checks, plain
from grader.exercises.common.checks import field
from grader.exercises.pipeline.training import Array, Given, near, proportional
from grader.ranks.program import CallResult, Strided
from grader.trace.events import SEND, Operation, Trace
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

Same = Callable[[Array, Array], bool]
WRONG = "the gradients are wrong"  # why a check about something else does not judge
NO_GRADIENT = (
    "Go backward through its outputs: on the last stage from the loss, on the others from the gradient that the next "
    "stage sends."
)
NO_WEIGHT_PASS = "Call stage.backward_weight(output) once for each output of the stage."


def numbers(value: Any) -> list[float] | None:
    """A list of numbers that the harness returned."""
    found = [plain.number(part) for part in value] if isinstance(value, list) else [None]
    return None if None in found else [part for part in found if part is not None]


# ---- gradients


def values(bench: RankBench, group: str, same: Same = proportional) -> Iterator[tuple[Case, CallResult]]:
    """The calls of `group`, each with the whole model's gradients, but for a factor where `same` lets it pass.

    Raises Lost at the first without, about the last stage that is wrong: there a mistake arises, and goes backward.
    """
    for case, result in bench.calls(group):
        checks.allowed(bench, case, result)
        given: Given = case.expected
        behind = None  # the gradients of the stage behind
        for rank in reversed(range(case.ranks)):
            got = _gradient(bench, case, result, rank)
            right = given.right(rank)
            if not same(got, right):
                checks.undisturbed(bench, case, result)
                worst = int(np.argmax(np.nan_to_num(np.abs(got - right), nan=np.inf)))
                one, other = plain.apart(float(got[worst]), float(right[worst]))
                what = (
                    f"With {case.label}: a gradient of rank {rank}'s stage is {one} instead of the whole model's "
                    f"{other}. {_untold(result.trace, rank) or _too_early(result.trace) or _unweighed(case, result, rank) or _why(given, got, rank, behind)}"
                )
                raise bench.lost(case, "wrong_result", what, rank, other, one)
            behind = got
        yield case, result


def _gradient(bench: RankBench, case: Case, result: CallResult, rank: int) -> Array:
    """A stage's gradients in a row. Raises Lost where it has none."""
    given: Given = case.expected
    rows = []
    for name, like in (("weight", given.weights[rank]), ("bias", given.biases[rank])):
        value = field(result, rank, name)
        if not isinstance(value, Strided) or value.shape != like.shape or value.storage.dtype.kind != "f":
            checks.undisturbed(bench, case, result)
            how = NO_WEIGHT_PASS if case.by == "train_split" else NO_GRADIENT
            told = how if "F" in str(field(result, rank, "passes")) else "Call stage() on this rank, too."
            message = f"With {case.label}: rank {rank}'s stage has no gradient. {told}"
            raise bench.lost(case, "wrong_result", message, rank, "a gradient", plain.in_words(value))
        rows.append(value.view().astype(np.float64).reshape(-1))
    return np.concatenate(rows)


def _untold(trace: Trace, rank: int) -> str:
    """That a stage behind the first never received anything; "" where it did."""
    if rank == 0 or any(op.receives or op.collective for op in trace.operations(rank)):
        return ""
    return (
        f"Rank {rank} received no message. Send each activation from rank {rank - 1} to rank {rank}, and the gradient of "
        "each activation back."
    )


def _too_early(trace: Trace) -> str:
    """Which receive was waited for only after a message that needs one more receive; "" if none was. All that a stage
    behind the first sends is computed from what it has received, one message from another."""
    for rank in range(1, trace.ranks):
        sent = received = 0
        open_: list[Operation] = []
        for what, op in trace.steps[rank]:
            if what == "post" and op.receives:
                open_.append(op)
            elif what == "wait" and op in open_:
                open_.remove(op)
                received += 1
            elif what == "post" and op.kind == SEND:
                sent += 1
                if sent > received and open_ and open_[0].wait_line:
                    return (
                        f"When rank {rank} sent its message {sent} (line {op.line}), it had waited for "
                        f"{says.counted(received, 'receive')}. It waited for the receive of line {open_[0].line} only in line "
                        f"{open_[0].wait_line}. Wait for each receive before its buffer is read."
                    )
    return ""


def _unweighed(case: Case, result: CallResult, rank: int) -> str:
    """That a stage had fewer weight passes than forward passes; "" where it had as many, or has none."""
    passes = str(field(result, rank, "passes"))
    made, weighed = passes.count("F"), passes.count("W")
    if case.by != "train_split" or weighed >= made:
        return ""
    return f"Its backward_weight() was called for only {weighed} of {says.counted(made, 'output')}. {NO_WEIGHT_PASS}"


def _why(given: Given, got: Array, rank: int, behind: Array | None) -> str:
    if not np.isfinite(got).all():
        return "Some gradients are not finite. Check that each message has arrived before its buffer is read."
    for wrong, sentence in given.mistakes(rank):
        if near(got, wrong):
            return sentence
    right = given.right(rank)
    if proportional(got, right) and abs(_factor(got, right) - 1) > 0.1:
        return (
            f"All gradients are {_times(got, right)}. loss_fn already takes the mean over its samples. Divide each "
            f"micro-batch's loss by {given.plan.micro_batches}, and by nothing else."
        )
    if near(got, right, 300):
        return "All gradients are nearly right. Keep activations and gradients in float32 on the way."
    if behind is not None:
        but = "" if near(behind, given.right(rank + 1)) else f", but {_times(behind, given.right(rank + 1))}"
        return (
            f"The gradients of rank {rank + 1}'s stage are right{but}. Check that it sends the gradient of its input, and "
            "which micro-batch this belongs to. Check also that nothing overwrites that micro-batch's input in the "
            "meantime."
        )
    taken = "activations that it receives" if rank else "inputs that it is given"
    return (
        f"This is the last stage. Check the {taken}, and its targets. Check also that nothing "
        "overwrites an activation while a backward pass still needs it."
    )


def _factor(got: Array, right: Array) -> float:
    return float(got @ right) / float(right @ right)


def _times(got: Array, right: Array) -> str:
    factor = _factor(got, right)
    return f"{factor:.4g} times too large" if factor > 1 else f"{1 / factor:.4g} times too small"


def gradients(group: str, same: Same = near) -> Callable[[RankBench], Outcome]:
    """All calls of `group` leave the whole model's gradients on every stage, by micro-batches that are cut in order."""

    def found(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult]]:
        for case, result in values(bench, group, same):
            if case.engine == "sim":
                _in_order(bench, case, result)
            yield case, result

    return checks.right(found, group)


def _in_order(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost where a micro-batch of the first stage is no part of the batch: nothing else shows it, because the
    stages here treat each row by itself."""
    given: Given = case.expected
    size, first = given.plan.rows, given.inputs.reshape(given.plan.batch, -1)[:, 0]
    parts = first.reshape(-1, size).tolist()
    passed = field(result, 0, "given")
    for part in passed if isinstance(passed, list) else []:
        if not isinstance(part, list) or len(part) != size or part in parts:
            continue
        rows = [int(np.argmin(np.abs(first - number))) for number in part]
        what = (
            f"With {case.label}: the gradients are right, but rank 0 passes rows {says.listed(rows)} of the inputs to "
            f"stage() as one micro-batch. Cut the inputs and the targets along dimension 0 in order: micro-batch 0 is rows 0 "
            f"to {size - 1}. A stage that looks at a whole micro-batch, such as batch normalization, needs these parts."
        )
        raise bench.lost(case, "wrong_result", what, 0, f"rows 0 to {size - 1}", f"rows {says.listed(rows)}")


def blind(*groups: str) -> Callable[[RankBench], Outcome]:
    """The gradients, where inputs and targets are not numbers on the ranks that may not read them. What is wrong in
    `groups`, too, where all are, is another check's matter."""

    def judge(bench: RankBench) -> Outcome:
        for _ in checks.right_ones(values, bench, groups, WRONG):
            pass
        for case, result in bench.calls("blind"):
            _blind(bench, case, result)
        with checks.not_about(WRONG):
            for _ in values(bench, "blind"):
                pass
        return bench.picture("blind")

    return judge


def _blind(bench: RankBench, case: Case, result: CallResult) -> None:
    for rank in reversed(range(case.ranks)):
        with checks.not_about(WRONG):
            got = _gradient(bench, case, result, rank)
        if np.isfinite(got).all():
            continue
        what = (
            f"With {case.label}: rank {rank}'s gradients are not finite. The targets, too, are not a number on all "
            "ranks but the last. Read inputs on the first rank only and targets on the last rank only. Send everything "
            "else in messages."
        )
        raise bench.lost(case, "wrong_result", what, rank, "finite gradients", "NaN")


# ---- what is returned


def loss(*groups: str) -> Callable[[RankBench], Outcome]:
    """The mean loss on the last stage, as a float; None on all others."""
    return checks.where_right(values, groups, _returned, WRONG)


def waited(*groups: str) -> Callable[[RankBench], Outcome]:
    """Every request is waited for, in all calls of `groups`."""
    return checks.where_right(values, groups, checks.undisturbed, WRONG)


def _returned(bench: RankBench, case: Case, result: CallResult) -> None:
    given: Given = case.expected
    right, last = float(given.losses.mean()), case.ranks - 1
    for rank in range(last):
        value, kind = field(result, rank, "value"), field(result, rank, "type")
        if kind != "NoneType":
            message = (
                f"With {case.label}: rank {rank} returned {plain.in_words(value)}. Return None on every stage but "
                "the last: only the last stage has a loss."
            )
            raise bench.lost(case, "wrong_result", message, rank, "None", plain.in_words(value))
    value, kind = field(result, last, "value"), field(result, last, "type")
    if isinstance(value, bool) or not isinstance(value, float):
        got = "a tensor" if isinstance(value, Strided) else plain.in_words(value)
        message = (
            f"With {case.label}: the last stage, rank {last}, returned {got}. Return the mean loss as a float, "
            "with float(loss) or loss.item()."
        )
        raise bench.lost(case, "wrong_result", message, last, f"{right:.6g}", str(kind)[:60])
    if not math.isclose(value, right, rel_tol=2e-4, abs_tol=1e-6):
        one, other = plain.apart(value, right)
        message = (
            f"With {case.label}: the last stage, rank {last}, returned {one} instead of the mean loss "
            f"{other}. {_loss_habit(given, value)}".strip()
        )
        raise bench.lost(case, "wrong_result", message, last, other, one)


def _loss_habit(given: Given, got: float) -> str:
    m, right = given.plan.micro_batches, float(given.losses.mean())
    if m > 1 and math.isclose(got, m * right, rel_tol=1e-3):
        return f"This is the sum over the {m} micro-batches. Divide by {m}."
    for k, own in enumerate(given.losses):
        if math.isclose(got, own, rel_tol=1e-3) or math.isclose(got, own / m, rel_tol=1e-3):
            return f"This is the loss of micro-batch {k} alone. Take the mean over all {m} micro-batches."
    return ""
