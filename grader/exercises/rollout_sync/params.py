"""Judges of rollout_sync's params: each version is the trainers' mean, and with max_staleness 0 the synchronous loop's."""

from __future__ import annotations

from collections import Counter

import numpy as np

from grader import says
from grader.exercises.common import checks, plain
from grader.exercises.rollout_sync.history import History
from grader.exercises.rollout_sync.lanes import Run, judged
from grader.exercises.rollout_sync.policy import NEAR, Array
from grader.lost import Lost

CLOSE = 1e-6  # of params, relative to the greatest


def apart(got: Array, right: Array) -> float:
    """How far params are from the right ones, relative to the greatest of these."""
    return float(np.abs(got - right).max() / max(1.0, np.abs(right).max()))


def final_of(run: Run, trainer: int) -> Array:
    """What a trainer returned. Raises Lost where that are no params."""
    returned = run.result.returned[trainer]
    value = returned[0] if isinstance(returned, list) and returned else None
    array = checks.array(value)
    if array is None or array.shape != run.history.given.start.shape or not np.isfinite(array).all():
        message = (
            f"trainer() returned {plain.in_words(value)} on rank {trainer}. Return the params of version "
            f"{run.history.plan.steps} on every trainer."
        )
        raise run.lost("wrong_result", message, trainer)
    return np.asarray(array.astype(np.float64))


def _too_few_steps(run: Run) -> Lost:
    """What is raised where the trainers made fewer steps than they should."""
    history = run.history
    steps = history.plan.steps
    message = f"optimizer_step was called {says.counted(history.done, 'time')} on the trainers, but steps is {steps}."
    return run.lost("wrong_result", message, 0, f"{steps} steps", f"{history.done} steps")


def _unchanged(run: Run) -> None:
    for rank, returned in enumerate(run.result.returned):
        if isinstance(returned, list) and len(returned) == 2 and returned[1] is False:
            message = (
                f"the argument `params` was changed on rank {rank}. Receive new versions into a tensor of your own."
            )
            raise run.lost("wrong_result", message, rank)


def fault(run: Run, others: bool = True) -> Lost | None:
    """What is lost unless each version is the mean of what the trainers made of the one before, and they return the last:
    all of them, or, without the `others`, trainer 0."""
    history, plan, given = run.history, run.history.plan, run.history.given
    for step in range(history.done):
        right = given.place(history.versions[step])
        for trainer, places in enumerate(history.places):
            if float(np.abs(places[step] - right).max()) < NEAR:
                continue
            message = f"in step {step}, rank {trainer} gave optimizer_step params that are not version {step}."
            return run.lost("wrong_result", f"{message} {_what(history, places[step], step)}", trainer)
    if history.done < plan.steps:
        return _too_few_steps(run)
    for trainer in range(plan.trainers if others else 1):
        got = final_of(run, trainer)
        if apart(got, history.versions[-1]) > CLOSE:
            message = f"rank {trainer} returned params that are not version {plan.steps}. {_what(history, given.place(got), plan.steps)}"
            return run.lost("wrong_result", message, trainer)
    return None


def _what(history: History, place: Array, version: int) -> str:
    """What params at `place` are, in place of `version`, where that can be told."""
    given, plan = history.given, history.plan
    for number, params in enumerate(history.versions):
        if float(np.abs(given.place(params) - place).max()) < NEAR:
            return f"They are version {number}."
    if version and plan.trainers > 1:
        before = history.versions[version - 1]
        shares = [_rows(history, version - 1, trainer) for trainer in range(plan.trainers)]
        for trainer, share in enumerate(shares):
            if float(np.abs(given.place(given.stepped(before, [share])) - place).max()) < NEAR:
                return (
                    f"They are what optimizer_step returned on rank {trainer}. The next version is the mean over the "
                    f"{plan.trainers} trainers of what it returned."
                )
        both = given.place(given.stepped(before, shares)) * plan.trainers
        if float(np.abs(both - place).max()) < NEAR:
            return f"They are the sum over the {plan.trainers} trainers of what optimizer_step returned. Divide by {plan.trainers}."
    return "The next version is the mean over the trainers of what optimizer_step returned, and all trainers have the same."


def _rows(history: History, step: int, trainer: int) -> Array:
    mine = [used for used in history.in_step(step) if used.trainer == trainer]
    return np.array([[used.prompt, used.told, *used.sample, used.logprob] for used in mine])


@judged("async")
def final(run: Run) -> None:
    """The params of every step and the last ones."""
    _unchanged(run)
    wrong = fault(run)
    if wrong is not None:
        raise wrong


@judged("sync")
def sync(run: Run) -> None:
    """Step s uses the s-th `batch` prompts, made with version s; the params are those of the loop in one process."""
    history, plan = run.history, run.history.plan
    for step in range(history.done):
        due = set(range(step * plan.batch, (step + 1) * plan.batch))
        got = {used.prompt for used in history.in_step(step)}
        if got != due:
            wrong, missing = sorted(got - due), sorted(due - got)
            message = (
                f"step {step} used {prompts(wrong) if wrong else 'a prompt twice'} instead of {prompts(missing)}. With "
                f"max_staleness 0, step s uses the prompts s * batch to (s + 1) * batch - 1: here {min(due)} to {max(due)}. "
                f"{_how(history, step, wrong)}"
            )
            raise run.lost("wrong_result", message, 0)
        for used in history.in_step(step):
            if used.made is not None and used.made.version != step:
                message = (
                    f"in step {step}, the sample of prompt {used.prompt} was generated on rank {used.made.rank} with "
                    f"{of(used.made.version)}. With max_staleness 0, step {step} uses only samples of version {step}."
                )
                raise run.lost("wrong_result", message, used.made.rank, f"version {step}", of(used.made.version))
    astray = fault(run, others=False)
    if astray is not None:
        raise astray
    last, right = final_of(run, 0), history.given.synchronous()
    if (off := apart(last, right)) > CLOSE:
        other = next((used for used in history.used if used.made is None), None)
        why = (
            f"The sample or logprob of prompt {other.prompt} in step {other.step} is not what generate returned."
            if other is not None
            else ""
        )
        message = f"rank 0's final params differ from the synchronous loop's by {off:.2g}, relative to the greatest. {why}".strip()
        raise run.lost("wrong_result", message, 0, f"at most {CLOSE:g}", f"{off:.2g}")


def _how(history: History, step: int, wrong: list[int]) -> str:
    """What to do about a step that used wrong prompts, or, without any, one of its own twice."""
    if not wrong:
        twice = next(
            prompt for prompt, count in Counter(used.prompt for used in history.in_step(step)).items() if count > 1
        )
        return f"Prompt {twice} was used {where(history, twice)}. Use each prompt once."
    if wrong[-1] >= (step + 1) * history.plan.batch:
        return "Hand out the prompts of the next step only when its version is there."
    return f"Prompt {wrong[0]} belongs to step {wrong[0] // history.plan.batch}."


def where(history: History, prompt: int) -> str:
    """Every use of a prompt, for people: "in step 3 on rank 0 and in step 4 on rank 1"."""
    return says.listed(
        [f"in step {used.step} on rank {used.trainer}" for used in history.used if used.prompt == prompt]
    )


def of(version: int) -> str:
    """A version, for people."""
    return f"version {version}" if version >= 0 else "params that match no version of the trainers"


def prompts(ids: list[int]) -> str:
    """Some prompts, for people."""
    return f"prompt{'s' * (len(ids) != 1)} {says.listed([str(each) for each in ids[:6]])}" + " and others" * (
        len(ids) > 6
    )
