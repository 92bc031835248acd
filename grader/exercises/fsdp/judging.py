"""Judges of fsdp: the outputs of every step, the state, and the budgets of memory and bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from grader import says
from grader.exercises.common import checks, plain
from grader.exercises.fsdp import training
from grader.exercises.fsdp.training import NOT_SAVED, Array, Job
from grader.ranks.program import CallResult, Strided
from grader.trace.events import Operation
from grader.verdict import Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

NEAR = 2e-4  # what float32 may lose in a few steps on values of about 1
SLACK = 1.1  # of the shards: padding, and shards that are not quite alike
DDP_FACTOR = 1.55  # of the bytes: two gathers and a reduce-scatter where DDP has what two of them send
LEAST = 0.9  # of the bytes of one gather and a reduce-scatter
WRONG = "the outputs are wrong"  # why a check about something else does not judge
FEW = "One gather of the parameters and one reduce-scatter send more: what is missing came some other way."


def values(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult]]:
    """The calls of `group`, each with one process's outputs in every step. Raises Lost at the first without."""
    for case, result in bench.calls(group):
        checks.undisturbed(bench, case, result)
        _right_outputs(bench, case, result)
        yield case, result


# ---- outputs


def _right_outputs(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost where a rank's outputs are not those of one process."""
    job: Job = case.expected
    right = training.trained(job).outputs
    got = []
    for rank in range(case.ranks):
        rows = checks.field(result, rank, "outputs")
        if not isinstance(rows, Strided) or rows.shape != right[rank].shape or rows.storage.dtype.kind != "f":
            one = f"a tensor of shape {right[rank].shape[1:]}"
            message = f"With {case.label}: rank {rank}'s outputs are {plain.in_words(rows)}, not {one} in every step."
            raise bench.lost(case, "wrong_result", message, rank)
        got.append(rows.view().astype(np.float64))
    wrong = [~np.isclose(mine, own, NEAR, NEAR).reshape(job.steps, -1) for mine, own in zip(got, right, strict=True)]
    if not any(bad.any() for bad in wrong):
        return
    step = min(int(np.argmax(bad.any(1))) for bad in wrong if bad.any())
    rank = next(rank for rank, bad in enumerate(wrong) if bad[step].any())
    place = int(np.argmax(wrong[rank][step]))
    one, other = plain.apart(float(got[rank][step].flat[place]), float(right[rank][step].flat[place]))
    said = (
        f"With {case.label}: in step {step + 1} of {job.steps}, rank {rank}'s outputs are not those of one process on "
        f"all ranks' batches: {one} instead of {other}."
    )
    message = f"{said} {_why(job, result, got, step)}".strip()
    raise bench.lost(case, "wrong_result", message, rank, other, one)


def _why(job: Job, result: CallResult, got: list[Array], step: int) -> str:
    for outputs, sentence in training.mistakes(job):
        if all(np.allclose(mine, theirs, rtol=2e-3, atol=2e-3) for mine, theirs in zip(got, outputs, strict=True)):
            if any(checks.amount(result, rank, "held") == 0 for rank in range(job.ranks)):
                return "They never change: parameters() is empty on some rank."
            bare = max(checks.amount(result, rank, "bare") for rank in range(job.ranks))
            if job.lr and sentence.startswith("The module's parameters never") and 0 < bare < math.inf:
                return f"They never change: after finish_gradient_sync() {bare:.0f} of a rank's shards have no .grad."
            return sentence
    if not all(np.isfinite(mine).all() for mine in got):
        return "Some are not finite numbers: was memory read that nobody filled?"
    if step == 0:
        return "Nothing is trained yet: are the shards cut, padded and put together again without a loss?"
    return "The step before was not one process's step."


# ---- memory


def shards(bench: RankBench) -> Outcome:
    """The shards of each rank take 1/N of the parameters' memory."""
    for case, result in checks.if_right(values(bench, "shards"), WRONG):
        job: Job = case.expected
        held = [checks.amount(result, rank, "held") for rank in range(case.ranks)]
        worst = max(range(case.ranks), key=lambda rank: held[rank])
        allowed = SLACK * job.bytes / case.ranks
        if held[worst] > allowed:
            shares = ", ".join(f"{100 * share / job.bytes:.0f} %" for share in held)
            what = (
                f"With {case.label}: parameters() of rank {worst} take {100 * held[worst] / job.bytes:.1f} % of the "
                f"parameters' memory, {100 * SLACK / case.ranks:.1f} % allowed (the ranks: {shares}). "
                f"{_share_habit(held, job.bytes)}"
            )
            texts = f"at most {allowed:.0f} bytes", f"{held[worst]:.0f} bytes"
            raise bench.lost(case, "too_much_memory", what, worst, *texts)
    return bench.picture("shards")


def _share_habit(held: list[float], total: int) -> str:
    if min(held) > 0.99 * total:
        return "Every rank has all of them: keep a copy of your part (a slice keeps the memory of the whole alive)."
    if sum(held) < SLACK * total:
        return "The units differ in size: cut every unit into N parts, do not give whole units away."
    return (
        f"All ranks together have {100 * sum(held) / total:.0f} %: the parts must not overlap, be kept twice or in a "
        "wider dtype."
    )


def peak(bench: RankBench) -> Outcome:
    """Never more of the parameters is alive on a rank than its shard and two units."""
    for case, result in checks.if_right(values(bench, "peak"), WRONG):
        job: Job = case.expected
        n, allowed = case.ranks, job.allowed_bytes
        peaks = [checks.amount(result, rank, "peak") for rank in range(n)]
        worst = max(range(n), key=lambda rank: peaks[rank])
        if peaks[worst] <= allowed:
            continue
        where, whole = checks.field(result, worst, "where"), checks.amount(result, worst, "whole")
        message = (
            f"With {case.label}: {where if isinstance(where, str) else 'once'}, rank {worst} holds "
            f"{peaks[worst]:.0f} bytes of parameters; its shard and two units are {job.most_bytes}. "
            f"{_peak_habit(job, str(where), whole)}"
        )
        texts = f"at most {allowed} bytes", f"{peaks[worst]:.0f} bytes"
        raise bench.lost(case, "too_much_memory", message, worst, *texts)
    return bench.picture("peak")


def _peak_habit(job: Job, where: str, whole: float) -> str:
    units = sum(size > 0 for size in job.unit_bytes)
    there = f"{whole:.0f} of {units} units are there whole"
    if "construction" in where:
        return f"{there}: after the construction nothing may keep the parameters that were cut into shards."
    if "finish" in where:
        return f"{there}, when none is needed: free a unit as soon as its gradients are reduced."
    if "backward" in where:
        return (
            f"{there}: gather a unit before its forward pass and again before its backward pass, and free it after "
            "each. What autograd saved for the backward pass keeps memory too."
        )
    if whole >= units:
        return f"{there}: gather each unit just before it is needed, and free it after its forward pass."
    return (
        f"{there}: free a unit after its forward pass. Autograd saves a view of each weight, which keeps the memory "
        "even when p.data is another tensor."
    )


# ---- messages


def sent(bench: RankBench) -> Outcome:
    """Bytes of each step: at most 1.55 times those of DDP's all-reduce of the gradients."""
    for case, result in checks.if_right(values(bench, "budget"), WRONG):
        job: Job = case.expected
        n, size = case.ranks, job.bytes
        ddp = 2 * (n - 1) * size / n
        for rank in range(n):
            for step, operations in enumerate(checks.by_step(result, rank)):
                count = sum(checks.sent_by(op, result.trace.groups.get(op.tag, ())) for op in operations)
                if LEAST * ddp <= count <= DDP_FACTOR * ddp:
                    continue
                few = count < ddp
                names = ", ".join(dict.fromkeys(op.name for op in operations)) or "nothing"
                kind: Kind = "too_few_bytes" if few else "too_many_bytes"
                what = (
                    f"With {case.label}: in step {step + 1}, rank {rank} sent {count} bytes ({names}), "
                    f"{count / ddp:.2f} times DDP's {ddp:.0f}. {FEW if few else _many(operations, count / ddp)}"
                )
                limit = f"at least {LEAST * ddp:.0f} bytes" if few else f"at most {DDP_FACTOR * ddp:.0f} bytes"
                raise bench.lost(case, kind, what, rank, limit, f"{count} bytes")
    return bench.picture("budget")


def _many(operations: list[Operation], times: float) -> str:
    budget = "Two gathers of the parameters and a reduce-scatter of the gradients send 1.5 times DDP's"
    if any(op.dtype == "float64" for op in operations):
        return f"{budget}, and here some of it goes as float64."
    if any(op.name.startswith("all_reduce") and op.size > 64 for op in operations):
        return f"{budget}; an all-reduce sends every rank all the gradients, where it needs those of its shard."
    if times > 1.9:
        return f"{budget}: is a unit gathered more often than once for each pass?"
    return f"{budget}."


# ---- the state


def state(bench: RankBench) -> Outcome:
    """full_state_dict() is on every rank what the unwrapped module's state_dict() would be."""
    for case, result in bench.calls("state_dict"):
        checks.allowed(bench, case, result)
        job: Job = case.expected
        after = training.trained(job).values
        for rank in range(case.ranks):
            for field, step in (("first", 0), ("last", job.steps - 1)):
                when = f"after {step} steps" if step else "before the first step"
                wrong = _wrong_state(job, checks.field(result, rank, field), after[step], after)
                if wrong:
                    message = f"With {case.label}: {when}, full_state_dict() on rank {rank} {wrong}"
                    raise bench.lost(case, "wrong_result", message, rank)
        _right_outputs(bench, case, result)
        checks.undisturbed(bench, case, result)
    return bench.picture("state_dict")


def _wrong_state(job: Job, got: Any, right: dict[str, Array], history: list[dict[str, Array]]) -> str:
    """What is wrong with a state; empty if nothing is."""
    if not isinstance(got, dict):
        return f"is {plain.in_words(got)}; it must be a dict of tensors, as module.state_dict() is."
    names = [name for name in job.values if name.rpartition(".")[2] != NOT_SAVED]
    missing, more = [name for name in names if name not in got], [name for name in got if name not in names]
    if missing or more:
        return _wrong_names(missing, more)
    for name in names:
        tensor, given = got[name], job.values[name]
        if tensor is False:
            return f"has {name!r} in memory that was given back: copy what you return before you free the unit."
        if not isinstance(tensor, Strided):
            return f"has {plain.in_words(tensor)} as {name!r}; it must be a tensor."
        if tensor.shape != given.shape:
            whole = "whole, in its own shape, without padding"
            return f"has {name!r} in shape {tuple(tensor.shape)}, not {given.shape}: every parameter must be {whole}."
        if tensor.storage.dtype != given.dtype:
            return f"has {name!r} as {tensor.storage.dtype}, not {given.dtype}."
        if not np.allclose(tensor.view(), right[name], NEAR, NEAR):
            return f"has a wrong {name!r}{_state_habit(tensor.view(), name, right, history)}"
    return ""


def _wrong_names(missing: list[str], more: list[str]) -> str:
    said = []
    if missing:
        what = "buffers" if not any(map(training.is_parameter, missing)) else "entries"
        said.append(f"lacks the {what} {says.some([repr(name) for name in missing], 3)}")
    if more:
        said.append(f"has {says.some([repr(str(name)[:60]) for name in more], 3)} in excess")
    kept = " A buffer with persistent=False is not saved." if any(name.endswith(NOT_SAVED) for name in more) else ""
    return f"{' and '.join(said)}: its names are those of the unwrapped module's state_dict().{kept}"


def _state_habit(got: Array, name: str, right: dict[str, Array], history: list[dict[str, Array]]) -> str:
    if not training.is_parameter(name):
        return ": a buffer must be as it was given."
    if not right[name].shape or not got.any():
        return ": it is all zeros, as memory that was never filled." if not got.any() else "."
    for number, values in enumerate(history):
        if values[name] is not right[name] and np.allclose(got, values[name], NEAR, NEAR):
            return f": it is what it was after {number} steps. Gather the shards anew when the state is asked for."
    same = np.isclose(got, right[name], NEAR, NEAR).mean()
    return f": {100 * same:.0f} % of its elements are right." if same else "."
