"""LossScaler: dynamic loss scaling where all ranks skip a step if one of them must.

The rules are those of torch.amp.GradScaler, whose scales and skipped steps are expected (see `_scaling`); that the
ranks decide together is what ShardedGradScaler adds to it in torch.distributed.fsdp, for gradients that are sharded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grader import says
from grader.exercise import Check, Exercise
from grader.exercises.common import checks
from grader.exercises.grad_scaler.scaling import BESIDE, Array, Right, Work, cases, scale_habit, scaled
from grader.ranks.program import CallResult, Function
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench, Ranks

_OWN = " Keep what is found, and the scale, on the instance (self), not on the class or in the module."
_BAD = {"nan": "a NaN", "inf": "an inf", "-inf": "a -inf"}


def _calls(bench: RankBench, group: str) -> Iterator[tuple[Case, Work, Right, CallResult]]:
    for case, result in bench.calls(group):
        work, right = case.expected
        yield case, work, right, result


def _values(result: CallResult, rank: int, name: str) -> Array:
    values: Array = result.returned[rank][name].view().astype(np.float64)
    return values


def _close(got: Array, right: Any) -> bool:
    return bool(np.allclose(got, right, rtol=1e-4, atol=1e-5))


def _short(values: Any) -> str:
    return f"[{says.some([f'{float(value):.6g}' for value in values], 4)}]"


def _same_steps(bench: RankBench, case: Case, work: Work, right: Right, result: CallResult) -> None:
    """Raise Lost where a rank made a step that was to be skipped, or the other way round."""
    stepped = [result.returned[rank]["stepped"] for rank in range(work.ranks)]
    for step, expected in enumerate(right.stepped):
        wrong = [rank for rank in range(work.ranks) if stepped[rank][step] != int(expected)]
        if wrong:
            said = f"With {case.label}: {_why_not(work, right, stepped, step, wrong)}"
            texts = f"{int(expected)} optimizer.step()", f"{stepped[wrong[0]][step]}"
            raise bench.lost(case, "wrong_result", said, wrong[0], *texts)


def _why_not(work: Work, right: Right, stepped: list[list[int]], step: int, wrong: list[int]) -> str:
    """Which ranks did wrong in `step`, and the mistake behind it."""
    bad, who = right.bad[step], says.names(wrong)
    if not bad:
        if stepped[wrong[0]][step] > 1:
            return f"in step {step} {who} called optimizer.step() {stepped[wrong[0]][step]} times. Call it once."
        said = f"in step {step} {who} skipped optimizer.step(), although all gradients are finite. Make that step."
        return said + (" Another LossScaler had just found an inf." + _OWN if work.how[step] == "beside" else "")
    of = "the gradient" if work.ranks == 1 else f"the gradient of {says.names(bad)}"
    places = [place for place, _ in work.poison[0][step]]
    if work.ranks == 1 and places and min(places) >= work.starts[0].size // 2:
        of = "the gradient of the second parameter group"
    if len(bad) > 1:
        of = f"each gradient of {says.names(bad)}"
    what = next((one for rank in bad for _, one in work.poison[rank][step]), "inf")
    has = f"in step {step} {of} has {_BAD[what]}, but"
    if work.how[step] == "beside":
        return f"{has} optimizer.step() was called. Another LossScaler had just found none.{_OWN}"
    if work.how[step] == "value":
        return (
            f"{has} optimizer.step() was called. Between unscale_ and step, clip_grad_value_ made it finite. Look for inf, "
            "-inf and NaN in unscale_, and skip the step."
        )
    if work.ranks == 1:
        return f"{has} optimizer.step() was called. Skip the step if any element is inf, -inf or NaN."
    if set(wrong).isdisjoint(bad):
        return (
            f"{has} {who} called optimizer.step(). Let all ranks decide together: all-reduce, with MAX or SUM, whether "
            "any rank found an inf or a NaN."
        )
    return (
        f"{has} {who} called optimizer.step(). Skip a step on all ranks if any element on any rank is inf, -inf or NaN."
    )


def _same_scales(bench: RankBench, case: Case, work: Work, right: Right, result: CallResult) -> None:
    """Raise Lost where a scale is not as it must be."""
    scales = [result.returned[rank]["scales"] for rank in range(work.ranks)]
    for number, expected in enumerate(right.scales):
        for rank, mine in enumerate(scales):
            if np.isclose(mine[number], expected, rtol=1e-5):
                continue
            got, when = f"{mine[number]:g}", _after(right, number)
            said = f"{when} the scale of rank {rank} is {got} instead of {expected:g}."
            others = [other for other, theirs in enumerate(scales) if np.isclose(theirs[number], expected, rtol=1e-5)]
            if others:
                right_on = says.names(others)
                said += f" On {right_on} the scale is right. Update it by one decision, which all ranks share."
            habit = scale_habit(work, right, mine) or _that_step(work, right, result, rank, number - 1)
            said = f"With {case.label}: {said} {habit}".strip()
            raise bench.lost(case, "wrong_result", said, rank, f"{expected:g}", got)


def _that_step(work: Work, right: Right, result: CallResult, rank: int, step: int) -> str:
    """What the rank did in the step after which its scale is wrong, if that says why."""
    if step < 0:
        return ""
    made, scales = bool(result.returned[rank]["stepped"][step]), result.returned[rank]["scales"]
    if made and not right.stepped[step]:
        return f"Rank {rank} made that step."
    if work.ranks == 1 and not right.stepped[step] and scales[step] == scales[step + 1]:
        return "This skip did not change it. Multiply it by backoff_factor after every skip, however small it is."
    if made or not right.stepped[step]:
        return ""
    said = "It skipped that step, although all gradients are finite."
    largest = max(float(np.abs(scaled(work, each, step, right.scales[step])).max()) for each in range(work.ranks))
    if largest**2 > np.finfo(np.float32).max:
        said += " Test every element by itself: the squares of such large elements overflow."
    return said


def _after(right: Right, number: int) -> str:
    if not number:
        return "before the first step"
    done = "made" if right.stepped[number - 1] else "skipped"
    return f"after step {number - 1}, which must be {done},"


def _same_parameters(bench: RankBench, case: Case, work: Work, right: Right, result: CallResult) -> None:
    """Raise Lost where the parameters after a step are others."""
    for step in range(work.steps):
        for rank in range(work.ranks):
            got, expected = _values(result, rank, "parameters")[step], right.parameters[step][rank]
            if _close(got, expected):
                continue
            said = f"after step {step} rank {rank}'s parameters are wrong. "
            if right.stepped[step]:
                said += _step_habit(work, right, step, rank, got)
            else:
                said += "Skip that step and change nothing, not even by momentum."
            said = f"With {case.label}: {said}"
            raise bench.lost(case, "wrong_result", said, rank, _short(expected), _short(got))


def _step_habit(work: Work, right: Right, step: int, rank: int, got: Array) -> str:
    """The mistake that gives such a first step, in a sentence; else what to do."""
    if any(right.stepped[:step]):
        return "They were right after all steps before. Check what the scaler keeps from one step to the next."
    scale, gradient = right.scales[step], work.gradients[rank][step].astype(np.float64)
    ways = (
        (gradient * scale, "The step was made with the scaled gradient. Divide it by the scale first."),
        (
            gradient / scale,
            "The gradient was divided by the scale twice. Divide it in unscale_. step divides it only if unscale_ was not "
            "called before.",
        ),
    )
    start = work.starts[rank].astype(np.float64)
    moved, rounding = start - got, 1.5e-7 * np.abs(start).max()
    known = (said for one, said in ways if np.allclose(moved, work.rate * one, rtol=1e-4, atol=rounding))
    return next(known, "Make the step with the gradient divided by the scale.")


# ---- the checks


_skips = checks.right(_calls, "skips", _same_steps, _same_parameters)  # what the scale is does not matter here
_scales = checks.right(_calls, "scales", _same_scales)
_one_rank = checks.right(_calls, "one_rank", _same_steps, _same_scales)  # all skip, and go on with the same scale


@checks.judged(_calls, "unscale")
def _unscale(bench: RankBench, case: Case, work: Work, right: Right, result: CallResult) -> None:
    """What is clipped is the true gradient, and it is not divided once more."""
    for step in (step for step in range(work.steps) if right.stepped[step]):
        for rank in range(work.ranks):
            expected = work.gradients[rank][step].astype(np.float64)
            _true_gradient(bench, case, rank, _values(result, rank, "unscaled")[step], expected, right.scales[step])
    _same_steps(bench, case, work, right, result)
    _same_parameters(bench, case, work, right, result)


def _true_gradient(
    bench: RankBench, case: Case, rank: int, got: Array, expected: Array, scale: float, when: str = "after unscale_"
) -> None:
    """Raise Lost where p.grad is not the gradient of the loss that was not scaled."""
    if _close(got, expected):
        return
    said = f"{when} rank {rank}'s gradient is {_short(got)} instead of {_short(expected)}."
    if np.allclose(got, expected * scale, rtol=1e-5):
        said += " It is still scaled. Divide by the scale in unscale_ at once, so that the true gradient is clipped."
    elif np.allclose(got, expected / scale, rtol=1e-5):
        said += " It has been divided by the scale twice. Divide only once."
    elif case.expected[0].how[0] == "beside" and np.allclose(got * BESIDE, expected * scale, rtol=1e-5):
        said += (
            f" It has been divided by {BESIDE:g}, the scale of another LossScaler that was made after this one.{_OWN}"
        )
    else:
        said += " Divide every gradient of every parameter group by the scale, in place."
    raise bench.lost(case, "wrong_result", f"With {case.label}: {said}", rank, _short(expected), _short(got))


@checks.judged(_calls, "raises")
def _raises(bench: RankBench, case: Case, work: Work, right: Right, result: CallResult) -> None:
    """A second unscale_ raises RuntimeError and divides nothing; after update() it may be called again."""
    for rank in range(work.ranks):
        for name, after in (("raised", ""), ("late", "after step() and ")):
            raised = result.returned[rank][name]
            missed = next((step for step, one in enumerate(raised) if not one), None)
            if missed is not None:
                said = (
                    f"With {case.label}: in step {missed} unscale_ was called a second time {after}before "
                    "update(), and it raised no RuntimeError. Raise one: gradients that are divided twice look right but are too small."
                )
                raise bench.lost(case, "wrong_result", said, rank, "RuntimeError", "nothing raised")
        for step in range(work.steps):
            if right.stepped[step]:
                expected = work.gradients[rank][step].astype(np.float64)
                got, when = _values(result, rank, "unscaled")[step], "after the second unscale_"
                _true_gradient(bench, case, rank, got, expected, right.scales[step], when)


EXERCISE = Exercise(
    name="grad_scaler",
    chapter="07",
    title="A loss scaler that all ranks agree with",
    minutes=40,
    difficulty=2,
    world=Ranks(
        (Function("LossScaler", ("init_scale", "growth_factor", "backoff_factor", "growth_interval")),),
        cases,
        limits=checks.TRAINING,
        banned=("torch.amp.grad_scaler.GradScaler",),
    ),
    checks=(
        Check("skips", "Steps with an inf or a NaN skipped, the others made with the true gradient", 4, _skips),
        Check("scales", "The scale shrinks after a skip, and grows after enough good steps", 4, _scales),
        Check("one_rank", "An inf on one rank makes all ranks skip", 5, _one_rank),
        Check("unscale", "unscale_ divides once, before the gradient is clipped", 4, _unscale),
        Check("raises", "unscale_ twice before update raises RuntimeError", 1, _raises),
    ),
)
