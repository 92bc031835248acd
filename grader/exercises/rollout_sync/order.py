"""Judges of rollout_sync's order: which samples a step takes, and which prompts are handed out first.

Messages are the learner's own, so when trainer 0 learned of a sample, and when it handed out a prompt, is known only
within bounds (`Made.known`, `Made.handed`). A run is wrong where no time within the bounds is right.
"""

from __future__ import annotations

from grader import says
from grader.exercises.rollout_sync import lanes
from grader.exercises.rollout_sync.history import IN_HAND, NANOSECONDS, Made, at
from grader.trace.events import RECV_ANY


@lanes.judged("old")
def first(run: lanes.Run) -> None:
    """No step leaves out a usable sample that trainer 0 had before another one, which the step uses, was completed."""
    passed_over(run)


def passed_over(run: lanes.Run) -> None:
    """Raise Lost where a step does so."""
    history = run.history
    worst: tuple[float, int, Made, Made] | None = None
    for step in range(history.done):
        used = {each.prompt: each.made for each in history.in_step(step) if each.made is not None}
        unknown = {each.prompt for each in history.in_step(step) if each.made is None}
        last = max(used.values(), key=lambda made: made.until, default=None)
        if last is None:
            continue
        for made in history.made:
            usable = 0 <= made.version <= step <= made.version + history.plan.max_staleness
            if not usable or made.prompt >= history.plan.prompts or history.first_used.get(made.prompt, step) < step:
                continue
            if made.prompt in unknown:
                continue
            rival = used.get(made.prompt, last)  # the one that the step waited for in its place
            if rival is not made and rival.until - made.known > (worst[0] if worst else 0):
                worst = rival.until - made.known, step, made, rival
    if worst is None:
        return
    wait, step, made, last = worst
    later = history.first_used.get(made.prompt)
    what = "no step used the prompt" if later is None else f"step {later} used the prompt"
    what = "the prompt was generated again" if later == step else what
    message = (
        f"step {step} waited for {last.name()}, which ended at {at(last.until)}. Trainer 0 had received {made.name()} "
        f"at {at(made.known)}, {at(wait)} before. Its age in step {step} is {step - made.version}, so it was usable, but "
        f"{what}. Use the first `batch` usable samples in the order in which they come."
    )
    raise run.lost("wrong_result", message, made.rank)


@lanes.judged("old")
def handed_out(run: lanes.Run) -> None:
    """New prompts in order of their ids, and those whose sample is too old before any new one."""
    _new_ones(run)
    _again_first(run)


def _new_ones(run: lanes.Run) -> None:
    new = sorted(run.history.new.values(), key=lambda made: made.since)
    last: dict[int, Made] = {}
    for made in new:
        before = last.get(made.rank)
        if before is not None and before.prompt > made.prompt:
            message = (
                f"rank {made.rank} generated prompt {before.prompt} at {at(before.since)}, and prompt {made.prompt} after it, "
                f"at {at(made.since)}. Both were new. Hand out new prompts in order of their ids."
            )
            raise run.lost("wrong_result", message, made.rank)
        last[made.rank] = made
    for number, made in enumerate(new):
        for late in new[number + 1 :]:
            if late.prompt < made.prompt and made.since < late.handed:
                message = (
                    f"rank {made.rank} began prompt {made.prompt} at {at(made.since)}. After that, rank {late.rank} ended "
                    f"{says.counted(IN_HAND + 1, 'other prompt')} before it began prompt {late.prompt}, at {at(late.since)}. So prompt "
                    f"{late.prompt} was handed out later than prompt {made.prompt}, or more than {IN_HAND} prompts waited on rank "
                    f"{late.rank}. Hand out new prompts in order of their ids, and let at most {IN_HAND} wait on a generator."
                )
                raise run.lost("wrong_result", message, late.rank)


def _again_first(run: lanes.Run) -> None:
    history, plan = run.history, run.history.plan
    for again in history.made:
        before = [made for made in history.of_prompt(again.prompt) if made.since < again.since]
        if not before:
            continue
        old = before[-1]
        too_old = history.noticed(max(old.known, history.version_since(old.version + plan.max_staleness + 1)))
        why = (
            f"the sample of {old.name()} was too old for step {old.version + plan.max_staleness + 1}. By {at(too_old)}, "
            "trainer 0 had it and had made a step since."
        )
        _before_new_ones(run, again, too_old, why)


def after_death(run: lanes.Run) -> None:
    """Raise Lost where new prompts went out before the one in whose generate() a generator died."""
    history, plan = run.history, run.history.plan
    failed = [op.resumed for op in run.result.trace.operations(0) if op.kind == RECV_ANY and op.failed]
    if not failed:
        return
    told = min(failed) / NANOSECONDS
    for died in history.of(plan.killed):
        again = next((made for made in history.of_prompt(died.prompt) if made.since > died.since), None)
        if not died.whole and again is not None:
            why = f"rank {plan.killed} died in generate of prompt {died.prompt}, and trainer 0 was told of it at {at(told)}."
            _before_new_ones(run, again, told, why)


def _before_new_ones(run: lanes.Run, again: Made, moment: float, why: str) -> None:
    """Raise Lost where new prompts were handed out after a moment, and before one that was to be generated again."""
    new = run.history.new.values()
    between = [made for made in new if made.handed > moment and made.since < again.handed]
    if not between:
        return
    first = min(between, key=lambda made: made.since)
    message = (
        f"{why} After that, {says.counted(len(between), 'new prompt')}, such as prompt {first.prompt} at {at(first.since)}, "
        f"went out before prompt {again.prompt}, which rank {again.rank} began again at {at(again.since)}. Hand out prompts "
        "that are to be generated again before new ones."
    )
    raise run.lost("wrong_result", message, again.rank)
