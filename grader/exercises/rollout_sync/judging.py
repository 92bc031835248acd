"""Judges of rollout_sync's values: versions, samples, staleness, each prompt once; and of a death."""

from __future__ import annotations

from collections import Counter

import numpy as np

from grader import says
from grader.exercises.common import checks, plain
from grader.exercises.rollout_sync import lanes, order
from grader.exercises.rollout_sync.history import History, Made, Used, pairs_of_one_prompt, read
from grader.exercises.rollout_sync.policy import NEAR, Array
from grader.lost import Lost
from grader.ranks.program import CallResult
from grader.verdict import Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

CLOSE = 1e-6  # of params, relative to the greatest


def lost(
    bench: RankBench, case: Case, history: History, kind: Kind, message: str, rank: int | None = None,
    expected: str = "", got: str = "",
) -> Lost:  # fmt: skip
    """What is raised, with the picture of the run."""
    loss = bench.lost(case, kind, f"With {case.label}: {message}", rank, expected, got)
    return Lost(loss.diagnosis, lanes.chart(case, history))


def _apart(got: Array, right: Array) -> float:
    return float(np.abs(got - right).max() / max(1.0, np.abs(right).max()))


# ---- params


def _finals(bench: RankBench, case: Case, result: CallResult, history: History) -> list[Array]:
    """What the trainers returned. Raises Lost where that are no params."""
    plan, found = history.plan, []
    for trainer in range(plan.trainers):
        returned = result.returned[trainer]
        value = returned[0] if isinstance(returned, list) and returned else None
        array = checks.array(value)
        if array is None or array.shape != history.given.start.shape or not np.isfinite(array).all():
            message = f"trainer() returned {plain.in_words(value)} on rank {trainer}. Return the params of version {plan.steps} on every trainer."
            raise lost(bench, case, history, "wrong_result", message, trainer)
        found.append(array.astype(np.float64))
    return found


def _unchanged(bench: RankBench, case: Case, result: CallResult, history: History) -> None:
    for rank, returned in enumerate(result.returned):
        if isinstance(returned, list) and len(returned) == 2 and returned[1] is False:
            message = (
                f"the argument `params` was changed on rank {rank}. Receive new versions into a tensor of your own."
            )
            raise lost(bench, case, history, "wrong_result", message, rank)


def _chain(bench: RankBench, case: Case, result: CallResult, history: History) -> None:
    """Raise Lost unless each version is the mean of what the trainers made of the one before, and all return the last."""
    plan, given = history.plan, history.given
    for step in range(history.done):
        right = given.place(history.versions[step])
        for trainer, places in enumerate(history.places):
            if float(np.abs(places[step] - right).max()) < NEAR:
                continue
            message = f"in step {step}, rank {trainer} gave optimizer_step params that are not version {step}."
            raise lost(bench, case, history, "wrong_result", f"{message} {_what(history, places[step], step)}", trainer)
    if history.done < plan.steps:
        message = f"optimizer_step was called {says.counted(history.done, 'time')} on the trainers, but steps is {plan.steps}."
        raise lost(bench, case, history, "wrong_result", message, 0, f"{plan.steps} steps", f"{history.done} steps")
    for trainer, final in enumerate(_finals(bench, case, result, history)):
        if _apart(final, history.versions[-1]) > CLOSE:
            message = (
                f"rank {trainer} did not return version {plan.steps}. {_what(history, given.place(final), plan.steps)}"
            )
            raise lost(bench, case, history, "wrong_result", message, trainer)


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


@checks.judged(read, "async")
def final(bench: RankBench, case: Case, result: CallResult, history: History) -> None:
    """The params of every step and the last ones."""
    _unchanged(bench, case, result, history)
    _chain(bench, case, result, history)


@checks.judged(read, "sync")
def sync(bench: RankBench, case: Case, result: CallResult, history: History) -> None:
    """Step s uses the s-th `batch` prompts, made with version s; the params are those of the loop in one process."""
    plan = history.plan
    for step in range(history.done):
        due = set(range(step * plan.batch, (step + 1) * plan.batch))
        got = {used.prompt for used in history.in_step(step)}
        if got != due:
            wrong, missing = sorted(got - due), sorted(due - got)
            message = (
                f"step {step} used {_prompts(wrong) if wrong else 'a prompt twice'} instead of {_prompts(missing)}. With "
                f"max_staleness 0, step s uses the prompts s * batch to (s + 1) * batch - 1: here {min(due)} to {max(due)}. Hand "
                "out the prompts of the next step only when its version is there."
            )
            raise lost(bench, case, history, "wrong_result", message, 0)
        for used in history.in_step(step):
            if used.made is not None and used.made.version != step:
                message = (
                    f"in step {step}, the sample of prompt {used.prompt} was generated on rank {used.made.rank} with "
                    f"{_of(used.made.version)}. With max_staleness 0, step {step} uses only samples of version {step}."
                )
                raise lost(
                    bench,
                    case,
                    history,
                    "wrong_result",
                    message,
                    used.made.rank,
                    f"version {step}",
                    _of(used.made.version),
                )
    right = history.given.synchronous()
    for trainer, got in enumerate(_finals(bench, case, result, history)):
        if (off := _apart(got, right)) > CLOSE:
            message = (
                f"rank {trainer}'s final params differ from the synchronous loop's by {off:.2g}, relative to the "
                f"greatest. {_what(history, history.given.place(got), plan.steps)}"
            )
            raise lost(bench, case, history, "wrong_result", message, trainer, f"at most {CLOSE:g}", f"{off:.2g}")


def _of(version: int) -> str:
    return f"version {version}" if version >= 0 else "params that are no version"


def _prompts(ids: list[int]) -> str:
    return f"prompt{'s' * (len(ids) != 1)} {says.listed([str(each) for each in ids[:6]])}" + " and others" * (
        len(ids) > 6
    )


# ---- prompts


@checks.judged(read, "async")
def once(bench: RankBench, case: Case, _: CallResult, history: History) -> None:
    """All prompts, each once, and no other."""
    _once(bench, case, history)


def _once(bench: RankBench, case: Case, history: History) -> None:
    plan = history.plan
    beyond = next((made for made in history.made if made.prompt >= plan.prompts), None)
    if beyond is not None:
        message = (
            f"rank {beyond.rank} generated prompt {beyond.prompt}. There are steps * batch = {plan.prompts} prompts, and "
            f"the last is {plan.prompts - 1}. Hand out none beyond it."
        )
        raise lost(
            bench,
            case,
            history,
            "wrong_result",
            message,
            beyond.rank,
            f"at most {plan.prompts - 1}",
            str(beyond.prompt),
        )
    times = Counter(used.prompt for used in history.used)
    twice = sorted(prompt for prompt, count in times.items() if count > 1)
    if twice:
        steps = [f"step {used.step}" for used in history.used if used.prompt == twice[0]]
        message = (
            f"{_prompts(twice)} {'is' if len(twice) == 1 else 'are'} used more than once: prompt {twice[0]} in "
            f"{says.listed(steps)}. Each prompt is used exactly once."
        )
        raise lost(bench, case, history, "lost_or_duplicated", message, 0, "once", f"{times[twice[0]]} times")
    never = [prompt for prompt in range(plan.prompts) if prompt not in times]
    if never and history.done == plan.steps:
        made = [each for each in history.made if each.prompt == never[0]]
        told = (
            f"Prompt {never[0]} was generated {says.counted(len(made), 'time')}."
            if made
            else f"Prompt {never[0]} was never generated."
        )
        message = f"no step uses {_prompts(never)}. {told} Each of the {plan.prompts} prompts is used exactly once."
        raise lost(bench, case, history, "lost_or_duplicated", message, 0, f"{plan.prompts} prompts", f"{len(times)}")


# ---- samples


@checks.judged(read, "async")
def samples(bench: RankBench, case: Case, _: CallResult, history: History) -> None:
    """Each sample and its logprob are what one generate() of the prompt returned."""
    for used in history.used:
        if used.made is None:
            raise _not_generated(bench, case, history, used)


def _not_generated(bench: RankBench, case: Case, history: History, used: Used) -> Lost:
    mine = [made for made in history.made if made.prompt == used.prompt and made.whole]
    label = f"in step {used.step}, rank {used.trainer} used prompt {used.prompt}"
    of_sample = next((made for made in mine if np.array_equal(made.sample, used.sample)), None)
    of_logprob = next((made for made in mine if np.float32(made.logprob) == np.float32(used.logprob)), None)
    if of_sample is not None and of_logprob is not None:
        message = (
            f"{label} with a sample of version {of_sample.version} and a logprob of version {of_logprob.version}. Rank "
            f"{of_logprob.rank} generated the prompt once more at {of_logprob.since:.4g} s, with other params. Use the "
            "logprob that generate returned together with the sample."
        )
        return lost(
            bench,
            case,
            history,
            "wrong_result",
            message,
            of_logprob.rank,
            f"version {of_sample.version}",
            f"version {of_logprob.version}",
        )
    if of_sample is not None:
        message = (
            f"{label} with the logprob {used.logprob:.9g}. generate returned {of_sample.logprob:.9g} with this sample, on "
            f"rank {of_sample.rank}. Send it as a float32 number, and do not change it."
        )
        return lost(
            bench,
            case,
            history,
            "wrong_result",
            message,
            used.trainer,
            f"{of_sample.logprob:.9g}",
            f"{used.logprob:.9g}",
        )
    other = next((made for made in history.made if made.whole and np.array_equal(made.sample, used.sample)), None)
    if other is not None:
        message = f"{label} with the sample of prompt {other.prompt}, which rank {other.rank} generated. Keep each sample with its prompt id."
        return lost(
            bench,
            case,
            history,
            "wrong_result",
            message,
            used.trainer,
            f"prompt {used.prompt}",
            f"prompt {other.prompt}",
        )
    close = next((made for made in mine if np.allclose(made.sample, used.sample, atol=0.05)), None)
    told = (
        f"It is close to the one from rank {close.rank}, but not the same bits. Send float32."
        if close
        else "Do not change samples, and do not reuse a buffer before its message has arrived."
    )
    message = f"{label} with a sample that generate never returned for it. {told}"
    return lost(bench, case, history, "wrong_result", message, used.trainer)


@checks.judged(read, "old")
def version(bench: RankBench, case: Case, _: CallResult, history: History) -> None:
    """The version that optimizer_step is told is that of the params of generate()."""
    for made in history.made:
        if made.version < 0:
            message = (
                f"rank {made.rank} generated prompt {made.prompt} with params that no trainer ever had. Give generate a "
                "whole version. Do not receive the next one into a tensor that is in use."
            )
            raise lost(bench, case, history, "wrong_result", message, made.rank)
    wrong = [used for used in history.used if used.made is not None and used.made.version != used.told]
    if wrong:
        used = wrong[0]
        assert used.made is not None
        message = (
            f"in step {used.step}, prompt {used.prompt} came with version {used.told}. Rank {used.made.rank} generated it "
            f"from {used.made.since:.4g} s to {used.made.until:.4g} s with params of version {used.made.version}. "
            f"{says.counted(len(wrong), 'sample')} of {len(history.used)} had a wrong version. Take the version together with "
            "the params, before generate."
        )
        texts = f"version {used.made.version}", f"version {used.told}"
        raise lost(bench, case, history, "wrong_result", message, used.made.rank, *texts)


# ---- staleness


@checks.judged(read, "old")
def stale(bench: RankBench, case: Case, _: CallResult, history: History) -> None:
    """No step uses what is too old, and what is too old is generated again, with newer params, and used."""
    _fresh(bench, case, history)
    for before, after in pairs_of_one_prompt(history):
        if 0 <= after.version <= before.version:
            message = (
                f"prompt {after.prompt} was generated with version {before.version} on rank {before.rank}, and again with "
                f"version {after.version} on rank {after.rank}, at {after.since:.4g} s. {_again(history, before)}"
            )
            raise lost(
                bench,
                case,
                history,
                "wrong_result",
                message,
                after.rank,
                f"above version {before.version}",
                f"version {after.version}",
            )
    _once(bench, case, history)


def _again(history: History, before: Made) -> str:
    return (
        f"Generate a prompt again only when its sample is too old, that is in step {before.version + history.plan.max_staleness + 1}, "
        "and then with newer params."
    )


def _fresh(bench: RankBench, case: Case, history: History) -> None:
    allowed = history.plan.max_staleness
    wrong = [used for used in history.used if used.step - used.version > allowed]
    if not wrong:
        return
    used = max(wrong, key=lambda each: each.step - each.version)
    age = used.step - used.version
    where = (
        f" Rank {used.made.rank} generated it from {used.made.since:.4g} s to {used.made.until:.4g} s."
        if used.made
        else ""
    )
    message = (
        f"step {used.step} used prompt {used.prompt} with a sample of version {used.version}, which is {says.counted(age, 'version')} "
        f"old.{where} max_staleness is {allowed}. {says.counted(len(wrong), 'sample')} of {len(history.used)} "
        f"{'was' if len(wrong) == 1 else 'were'} too old. Look at the age when a step takes its samples, not only when they "
        "arrive, and generate the prompt again."
    )
    rank = used.made.rank if used.made else used.trainer
    raise lost(bench, case, history, "wrong_result", message, rank, f"at most {allowed}", str(age))


# ---- death


@checks.judged(read, "death")
def death(bench: RankBench, case: Case, result: CallResult, history: History) -> None:
    """All prompts are used once, in right steps; what the dead generator had finished is used, if it was fresh."""
    plan = history.plan
    _once(bench, case, history)
    _fresh(bench, case, history)
    _chain(bench, case, result, history)
    for made in history.of(plan.killed):
        if not made.whole or made.known >= plan.dies_at:
            continue
        use = next((used for used in history.used if used.prompt == made.prompt), None)
        if use is None or use.step - made.version > plan.max_staleness:
            continue
        if use.made is not None and use.made.rank != plan.killed:
            message = (
                f"rank {plan.killed} finished prompt {made.prompt} at {made.until:.4g} s, and trainer 0 had its sample "
                f"at {made.known:.4g} s. Rank {plan.killed} died at {plan.dies_at:g} s. Then rank {use.made.rank} generated "
                "this prompt again. Results that came before a death count."
            )
            raise lost(bench, case, history, "lost_or_duplicated", message, use.made.rank)
    order.passed_over(bench, case, history)
