"""Judges of rollout_sync's samples: each prompt once, right versions, none too old; and of a death."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from grader import says
from grader.exercises.rollout_sync import order, params
from grader.exercises.rollout_sync.history import History, Made, Used, at, pairs_of_one_prompt
from grader.exercises.rollout_sync.lanes import Run, in_messages, judged
from grader.exercises.rollout_sync.params import of, prompts
from grader.lost import Lost

OVERWRITTEN = ("changed", "written sent", "received into")  # what became of a buffer that was still being sent

# ---- prompts


@judged("async")
def once(run: Run) -> None:
    """All prompts, each once, and no other."""
    _beyond(run)
    _each_once(run)


def _beyond(run: Run) -> None:
    history, plan = run.history, run.history.plan
    beyond = next((made for made in history.made if made.prompt >= plan.prompts), None)
    if beyond is not None:
        message = (
            f"rank {beyond.rank} generated prompt {beyond.prompt}. There are steps * batch = {plan.prompts} prompts, and "
            f"the last is {plan.prompts - 1}. Hand out none beyond it."
        )
        raise run.lost("wrong_result", message, beyond.rank, f"at most {plan.prompts - 1}", str(beyond.prompt))


def _each_once(run: Run) -> None:
    history, plan = run.history, run.history.plan
    times = Counter(used.prompt for used in history.used)
    twice = sorted(prompt for prompt, count in times.items() if count > 1)
    if twice:
        message = (
            f"{prompts(twice)} {'is' if len(twice) == 1 else 'are'} used more than once: prompt {twice[0]} "
            f"{params.where(history, twice[0])}. Each prompt is used exactly once."
        )
        raise run.lost("lost_or_duplicated", message, 0, "once", f"{times[twice[0]]} times")
    never = [prompt for prompt in range(plan.prompts) if prompt not in times]
    if never and history.done == plan.steps:
        made = history.of_prompt(never[0])
        told = (
            f"Prompt {never[0]} was generated {says.counted(len(made), 'time')}."
            if made
            else f"Prompt {never[0]} was never generated."
        )
        message = f"no step uses {prompts(never)}. {told} Each of the {plan.prompts} prompts is used exactly once."
        raise run.lost("lost_or_duplicated", message, 0, f"{plan.prompts} prompts", f"{len(times)}")


# ---- samples


@judged("async")
def samples(run: Run) -> None:
    """Each sample and its logprob are what one generate() of the prompt returned."""
    for used in run.history.used:
        if used.made is None:
            raise _not_generated(run, used)


def _not_generated(run: Run, used: Used) -> Lost:
    mine = [made for made in run.history.made if made.prompt == used.prompt and made.whole]
    label = f"in step {used.step}, rank {used.trainer} used prompt {used.prompt}"
    of_sample = next((made for made in mine if np.array_equal(made.sample, used.sample)), None)
    of_logprob = next((made for made in mine if np.float32(made.logprob) == np.float32(used.logprob)), None)
    if of_sample is not None and of_logprob is not None:
        message = (
            f"{label} with a sample of {of(of_sample.version)} and a logprob of {of(of_logprob.version)}. Rank "
            f"{of_logprob.rank} generated the prompt once more at {at(of_logprob.since)}, with other params. Use the "
            "logprob that generate returned together with the sample."
        )
        return run.lost("wrong_result", message, of_logprob.rank, of(of_sample.version), of(of_logprob.version))
    if of_sample is not None:
        theirs = (made for made in run.history.made if np.float32(made.logprob) == np.float32(used.logprob))
        whose = next((made for made in theirs if made.prompt != used.prompt), None)
        message = (
            f"{label} with the logprob {used.logprob:.9g}. generate returned {of_sample.logprob:.9g} with this sample, on "
            f"rank {of_sample.rank}. "
        )
        if whose is not None:
            message += f"{used.logprob:.9g} is the logprob of prompt {whose.prompt}. Keep each logprob with its sample."
        else:
            message += "Send it as a float32 number, and do not change it."
        return run.lost("wrong_result", message, used.trainer, f"{of_sample.logprob:.9g}", f"{used.logprob:.9g}")
    other = next((made for made in run.history.made if made.whole and np.array_equal(made.sample, used.sample)), None)
    if other is not None:
        message = f"{label} with the sample of prompt {other.prompt}, which rank {other.rank} generated. Keep each sample with its prompt id."
        return run.lost("wrong_result", message, used.trainer, f"prompt {used.prompt}", f"prompt {other.prompt}")
    close = next((made for made in mine if np.allclose(made.sample, used.sample, atol=0.05)), None)
    told = (
        f"It is close to the one from rank {close.rank}, but not the same bits. Send float32."
        if close
        else "Do not change samples, and do not reuse a buffer before its message has arrived."
    )
    message = f"{label} with a sample that generate never returned for it. {told}"
    return run.lost("wrong_result", message, used.trainer)


@judged("old")
def version(run: Run) -> None:
    """The version that optimizer_step is told is that of the params of generate()."""
    history = run.history
    in_messages(run)
    for made in history.made:
        if made.version < 0:
            message = (
                f"rank {made.rank} generated prompt {made.prompt} with params that no trainer ever had. Give generate one "
                "whole version, as the trainers made it."
            )
            raise run.lost("wrong_result", message, made.rank)
    wrong = [used for used in history.used if used.made is not None and used.made.version != used.told]
    if wrong:
        used = wrong[0]
        assert used.made is not None
        message = (
            f"in step {used.step}, prompt {used.prompt} came with version {used.told}. Rank {used.made.rank} generated it "
            f"from {at(used.made.since)} to {at(used.made.until)} with params of version {used.made.version}. "
            f"{says.counted(len(wrong), 'sample')} of {len(history.used)} had a wrong version. Take the version together with "
            "the params, before generate."
        )
        texts = f"version {used.made.version}", f"version {used.told}"
        raise run.lost("wrong_result", message, used.made.rank, *texts)
    _overwritten(run)


def _overwritten(run: Run) -> None:
    """Raise Lost where a buffer was changed that was still being sent. Here the receiver got what was in it at first; with
    gloo it may get another version than the one that it was told."""
    for found in run.result.diagnoses:
        if found.kind == "race" and found.got in OVERWRITTEN:
            loss = run.lost("race", found.message, found.rank, found.expected or "", found.got)
            raise Lost(replace(loss.diagnosis, line=found.line), loss.picture)


# ---- staleness


@judged("old")
def stale(run: Run) -> None:
    """No step uses what is too old, and what is generated again has newer params."""
    _fresh(run)
    for before, after in pairs_of_one_prompt(run.history):
        if 0 <= after.version <= before.version:
            message = (
                f"prompt {after.prompt} was generated with version {before.version} on rank {before.rank}, and again with "
                f"version {after.version} on rank {after.rank}, at {at(after.since)}. {_again(run.history, before)}"
            )
            raise run.lost(
                "wrong_result", message, after.rank, f"above version {before.version}", f"version {after.version}"
            )


def _again(history: History, before: Made) -> str:
    return (
        f"Generate a prompt again only when its sample is too old, that is in step {before.version + history.plan.max_staleness + 1}, "
        "and then with newer params."
    )


def _fresh(run: Run) -> None:
    history = run.history
    allowed = history.plan.max_staleness
    wrong = [used for used in history.used if used.step - used.version > allowed]
    if not wrong:
        return
    used = max(wrong, key=lambda each: each.step - each.version)
    age = used.step - used.version
    where = (
        f" Rank {used.made.rank} generated it from {at(used.made.since)} to {at(used.made.until)}." if used.made else ""
    )
    message = (
        f"step {used.step} used prompt {used.prompt} with a sample of version {used.version}, which is {says.counted(age, 'version')} "
        f"old.{where} max_staleness is {allowed}. {says.counted(len(wrong), 'sample')} of {len(history.used)} "
        f"{'was' if len(wrong) == 1 else 'were'} too old. Do not use such a sample. Generate its prompt again with newer "
        "params."
    )
    rank = used.made.rank if used.made else used.trainer
    raise run.lost("wrong_result", message, rank, f"at most {allowed}", str(age))


# ---- death


@judged("death")
def death(run: Run) -> None:
    """All prompts are used once, in right steps; what the dead generator had finished is used, if it was fresh, and what
    it had begun is handed out first."""
    history, plan = run.history, run.history.plan
    _each_once(run)
    fault = params.fault(run, others=False)
    if fault is not None:
        raise fault
    for made in history.of(plan.killed):
        if not made.whole or made.known >= plan.dies_at:
            continue
        use = next((used for used in history.used if used.prompt == made.prompt), None)
        if use is None or use.step != made.version:  # how old it may be is another check's
            continue
        if use.made is not None and use.made.rank != plan.killed:
            message = (
                f"rank {plan.killed} finished prompt {made.prompt} at {at(made.until)}, and trainer 0 had its sample "
                f"at {at(made.known)}. Rank {plan.killed} died at {plan.dies_at:g} s. Then rank {use.made.rank} generated "
                "this prompt again. Results that came before a death count."
            )
            raise run.lost("lost_or_duplicated", message, use.made.rank)
    order.after_death(run)
