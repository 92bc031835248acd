"""Judges of fsdp: the outputs of every step, the state, and the budgets of memory and bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from grader import says, tally
from grader.exercises.common import checks, plain
from grader.exercises.fsdp import training
from grader.exercises.fsdp.training import EVALUATED, NOT_SAVED, Array, Job
from grader.ranks.program import CallResult, Strided
from grader.trace.events import Operation
from grader.verdict import Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

NEAR = 2e-4  # what float32 may lose in a few steps on values of about 1
NEAR_IN_FLOAT64 = 1e-10  # the same of float64: what was rounded to float32 on its way shows
ROUNDED = 2e-6  # more than such rounding makes of it
SLACK = 1.1  # of the shards: padding, and shards that are not quite alike
DDP_FACTOR = 1.55  # of the bytes: two gathers and a reduce-scatter where DDP has what two of them send
LEAST = 0.9  # of the bytes of one gather and a reduce-scatter
WRONG = "the outputs are wrong"  # why a check about something else does not judge
FEW = "One gather of the parameters and one reduce-scatter send more. Move all data by messages between the ranks."


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
            shape = f"a floating-point tensor of shape {right[rank].shape}, for all steps together"
            message = f"With {case.label}: rank {rank}'s outputs are {plain.in_words(rows)} instead of {shape}."
            raise bench.lost(case, "wrong_result", message, rank)
        got.append(rows.view().astype(np.float64))
    near = NEAR_IN_FLOAT64 if job.double else NEAR
    wrong = [~np.isclose(mine, own, near, near).reshape(job.steps, -1) for mine, own in zip(got, right, strict=True)]
    if not any(bad.any() for bad in wrong):
        return
    step = min(int(np.argmax(bad.any(1))) for bad in wrong if bad.any())
    rank = next(rank for rank, bad in enumerate(wrong) if bad[step].any())
    place = int(np.argmax(wrong[rank][step]))
    one, other = plain.apart(float(got[rank][step].flat[place]), float(right[rank][step].flat[place]))
    said = (
        f"With {case.label}: in step {step + 1} of {job.steps}, rank {rank} puts out {one}. One process on all ranks' "
        f"batches puts out {other}."
    )
    message = f"{said} {_why(job, result, got, right, step)}".strip()
    raise bench.lost(case, "wrong_result", message, rank, other, one)


def _why(job: Job, result: CallResult, got: list[Array], right: list[Array], step: int) -> str:
    if job.double and _away(got, right) < ROUNDED:
        return (
            "All outputs are right to about 7 digits, as many as float32 has. The parameters are float64: keep this dtype "
            "for the shards, for the gradients, and for all that you send."
        )
    dropped = job.dropped if 0 <= job.dropped <= step else None
    if dropped is not None and (told := _bare_since(result, job, dropped)):
        return told
    for outputs, sentence in training.mistakes(job):
        if 2 * _away(got, outputs) > _away(got, right):
            continue  # the right ones are as near, as where this mistake does not show
        if all(np.allclose(mine, theirs, rtol=2e-3, atol=2e-3) for mine, theirs in zip(got, outputs, strict=True)):
            empty = [rank for rank in range(job.ranks) if checks.amount(result, rank, "held") == 0]
            if empty:
                return f"parameters() is empty on {says.names(empty)}. Give every rank its shards as parameters()."
            bare = max(checks.amount(result, rank, "bare") for rank in range(job.ranks))
            if job.lr and sentence.startswith("The module's parameters never") and 0 < bare < math.inf:
                return (
                    f"The module's parameters never change. After finish_gradient_sync(), {bare:.0f} of a rank's "
                    "shards have no .grad: set it."
                )
            return sentence
    if dropped is not None:
        return (
            f"All outputs before step {step + 1} are right. {_dropped(dropped)} Check what this call leaves behind, and the "
            f"gradients of step {step}."
        )
    if step == 0:
        return (
            "No parameter has been updated yet, so look at the forward pass: at the parameters that are gathered from the "
            "shards, and at what is called."
        )
    return f"Check the gradients of step {step}, and that the shards are gathered anew after that step."


def _dropped(step: int) -> str:
    return (
        f"At the start of step {step + 1}, the caller called model(x) outside torch.no_grad() and dropped the result. No "
        "backward pass followed."
    )


def _bare_since(result: CallResult, job: Job, step: int) -> str:
    """That shards have no gradient since `step`, in which a forward pass without a backward pass came first; or empty."""
    ranks = [rank for rank in range(job.ranks) if checks.amount(result, rank, "bare_at") == step]
    if not ranks or math.isinf(bare := checks.amount(result, ranks[0], "bare")):
        return ""
    count = int(bare)
    lack = f"{says.counted(count, 'shard')} of rank {ranks[0]} {'has' if count == 1 else 'have'} no .grad"
    return (
        f"{_dropped(step)} The step itself has a forward and a backward pass. After finish_gradient_sync(), {lack}. "
        "Reduce the gradients of every backward pass, also if an earlier forward pass had none."
    )


def _away(got: list[Array], outputs: list[Array]) -> float:
    return max(float(np.abs(mine - theirs).max()) for mine, theirs in zip(got, outputs, strict=True))


# ---- memory


@checks.judged(values, "shards", WRONG)
def shards(bench: RankBench, case: Case, result: CallResult) -> None:
    """The shards of each rank take 1/N of the parameters' memory."""
    job: Job = case.expected
    held = [checks.amount(result, rank, "held") for rank in range(case.ranks)]
    worst = max(range(case.ranks), key=lambda rank: held[rank])
    allowed = SLACK * job.bytes / case.ranks
    tally.note("parameters on a rank between steps", held[worst], allowed, "bytes", where=case.label,
               reference=job.bytes, of="DDP")  # fmt: skip
    if held[worst] > allowed:
        shares = ", ".join(f"{100 * share / job.bytes:.0f} %" for share in held)
        what = (
            f"With {case.label}: parameters() of rank {worst} take {100 * held[worst] / job.bytes:.1f} % of the "
            f"module's memory (the ranks: {shares}). At most {100 * SLACK / case.ranks:.1f} % is allowed. "
            f"{_share_habit(held, job.bytes, _why_larger(job, result, worst, allowed))}"
        )
        texts = f"at most {allowed:,.0f} bytes", f"{held[worst]:,.0f} bytes"
        raise bench.lost(case, "too_much_memory", what, worst, *texts)


def _why_larger(job: Job, result: CallResult, rank: int, allowed: float) -> str:
    """What makes a rank's parameters large although their elements are few; empty where they are not."""
    width = next(iter(job.values.values())).itemsize
    if checks.amount(result, rank, "elements") * width > allowed:
        return ""
    if checks.amount(result, rank, "own") > allowed:
        return f"They have no more elements than a shard, but of more than {width:,} bytes each. Keep the dtype."
    return "They have no more elements than a shard, but lie in larger memory and keep all of it alive. Copy slices with clone()."


def _share_habit(held: list[float], total: int, larger: str) -> str:
    if larger:
        return larger
    if min(held) > 0.99 * total:
        return "Every rank keeps all parameters. Keep a copy of the rank's part: a slice keeps the whole memory alive."
    if sum(held) < SLACK * total:
        return "The ranks' parts differ in size. Cut every unit into N parts, instead of giving whole units to ranks."
    return (
        f"All ranks together have {100 * sum(held) / total:.0f} %. Let no parts overlap, keep no part twice, and keep "
        "the dtype."
    )


@checks.judged(values, "peak", WRONG)
def peak(bench: RankBench, case: Case, result: CallResult) -> None:
    """Never more of the parameters is alive on a rank than its shard and two units."""
    job: Job = case.expected
    _right_evaluation(bench, case, result)
    n, allowed = case.ranks, job.allowed_bytes
    peaks = [checks.amount(result, rank, "peak") for rank in range(n)]
    worst = max(range(n), key=lambda rank: peaks[rank])
    tally.note("most parameters on a rank", peaks[worst], allowed, "bytes", where=case.label, reference=job.bytes,
               of="the whole module")  # fmt: skip
    if peaks[worst] <= allowed:
        return
    where, whole = checks.field(result, worst, "where"), checks.amount(result, worst, "whole")
    message = (
        f"With {case.label}: {where if isinstance(where, str) else 'once'}, rank {worst} holds "
        f"{peaks[worst]:,.0f} bytes of parameters. Its shard and two units are {job.most_bytes:,} bytes. "
        f"{_peak_habit(job, str(where), whole)}"
    )
    texts = f"at most {allowed:,} bytes", f"{peaks[worst]:,.0f} bytes"
    raise bench.lost(case, "too_much_memory", message, worst, *texts)


def _right_evaluation(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost where a forward pass under torch.no_grad() gives other outputs than the same one in training."""
    job: Job = case.expected  # it changes no parameters: the outputs are those of the first step
    right = training.trained(job).outputs
    for rank in range(case.ranks):
        got = checks.field(result, rank, "evaluated")
        shape = right[rank][0].shape
        if (
            not isinstance(got, Strided)
            or got.shape != shape
            or not np.allclose(got.view(), right[rank][0], NEAR, NEAR)
        ):
            message = (
                f"With {case.label}: under torch.no_grad(), after training, rank {rank}'s outputs differ from those "
                "for the same batch in training. Gather each unit before its forward pass there, too."
            )
            raise bench.lost(case, "wrong_result", message, rank)


def _whole(job: Job, whole: float) -> str:
    """How many of the units that have parameters are in memory whole."""
    units = sum(size > 0 for size in job.unit_bytes)
    return f"{whole:.0f} of the {units} units with parameters {'is' if whole == 1 else 'are'} in memory whole."


def _peak_habit(job: Job, where: str, whole: float) -> str:
    units, there = sum(size > 0 for size in job.unit_bytes), _whole(job, whole)
    if "construction" in where:
        return f"{there} Keep only the shards after the construction, and nothing that they were cut from."
    if ", after " in where:
        return f"{there} Free the unit that has computed before you gather another one."
    if "no_grad" in where:
        return f"{there} Free a unit after its forward pass, also where no backward pass follows."
    if "finish" in where:
        return f"{there} No unit is needed any more: free each unit as soon as its gradients are reduced."
    if "backward" in where:
        return (
            f"{there} Gather a unit before its forward pass and again before its backward pass, and free it after "
            "each. Tensors that autograd saved for the backward pass keep memory alive, too."
        )
    if whole >= units:
        return f"{there} Gather each unit just before it is needed, and free it after its forward pass."
    return (
        f"{there} Free a unit after its forward pass. Autograd saves a view of each weight, and the view keeps the "
        "memory alive even when p.data is another tensor."
    )


# ---- messages


@checks.judged(values, "budget", WRONG)
def sent(bench: RankBench, case: Case, result: CallResult) -> None:
    """Bytes of each step: at most 1.55 times those of DDP's all-reduce of the gradients."""
    job: Job = case.expected
    n, size = case.ranks, job.bytes
    ddp = 2 * (n - 1) * size / n
    for rank in range(n):
        for step, operations in enumerate(checks.by_step(result, rank)):
            count = sum(checks.sent_by(op, result.trace.groups.get(op.tag, ())) for op in operations)
            tally.note("bytes a rank sends in a step", count, DDP_FACTOR * ddp, "bytes", where=case.label,
                       reference=ddp, of="DDP")  # fmt: skip
            if LEAST * ddp <= count <= DDP_FACTOR * ddp:
                continue
            few = count < ddp
            names = ", ".join(dict.fromkeys(op.name for op in operations)) or "nothing"
            kind: Kind = "too_few_bytes" if few else "too_many_bytes"
            what = (
                f"With {case.label}: in step {step + 1}, rank {rank} sent {count:,} bytes ({names}), "
                f"{count / ddp:.2f} times DDP's {ddp:,.0f} bytes. {FEW if few else _many(operations, count / ddp)}"
            )
            limit = f"at least {LEAST * ddp:,.0f} bytes" if few else f"at most {DDP_FACTOR * ddp:,.0f} bytes"
            raise bench.lost(case, kind, what, rank, limit, f"{count:,} bytes")


def _many(operations: list[Operation], times: float) -> str:
    budget = "Two gathers of the parameters and a reduce-scatter of the gradients send 1.5 times the bytes of DDP."
    operations = [op for op in operations if op.size > 64]  # not what carries a flag or a count
    if any(op.dtype == "float64" for op in operations):
        return f"{budget} Here some data travels as float64: keep the parameters' own dtype."
    reduced = any(op.name.startswith("all_reduce") for op in operations)
    if reduced and any(op.name.startswith("reduce_scatter") for op in operations):
        return f"{budget} An all-reduce sends twice as much as a gather or a reduce-scatter."
    if reduced:
        return f"{budget} Do not call all_reduce: a rank needs only the gradients of its shard."
    gathers = any("gather" in op.name for op in operations)
    if gathers and any(op.name.startswith(("broadcast", "scatter")) for op in operations):
        return f"{budget} After an all-gather every rank has the unit. Do not send it again."
    if times > 1.9 or all("gather" in op.name or op.name.startswith("reduce_scatter") for op in operations):
        return f"{budget} Gather a unit at most once for each pass."
    return f"{budget} Send nothing else."


# ---- the state


@checks.judged(RankBench.calls, "state_dict")
def state(bench: RankBench, case: Case, result: CallResult) -> None:
    """full_state_dict() is on every rank what the unwrapped module's state_dict() would be."""
    checks.allowed(bench, case, result)
    job: Job = case.expected
    if job.watched:
        _right_outputs(bench, case, result)
        _freed_again(bench, case, result)
        return
    after = training.trained(job).values
    counted = {name: np.asarray(value + EVALUATED) for name, value in job.values.items() if training.is_count(name)}
    for rank in range(case.ranks):
        for field, step in (("first", 0), ("last", job.steps - 1)):
            when = f"after {step} steps" if step else "before the first step"
            wrong = _wrong_state(job, checks.field(result, rank, field), after[step] | (counted if step else {}), after)
            if wrong:
                if step and wrong.startswith("has a wrong"):  # of parameters that were trained wrongly
                    with checks.not_about(WRONG):
                        _right_outputs(bench, case, result)
                message = f"With {case.label}: {when}, full_state_dict() on rank {rank} {wrong}"
                raise bench.lost(case, "wrong_result", message, rank)
    _right_outputs(bench, case, result)
    checks.undisturbed(bench, case, result)


def _freed_again(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost where a step takes more memory because the whole state was asked for before it.

    What a step takes without that is what `peak` judges.
    """
    job: Job = case.expected
    for rank in range(case.ranks):
        before, held = (checks.amount(result, rank, name) for name in ("before", "peak"))
        if before <= job.allowed_bytes < held:
            where, whole = checks.field(result, rank, "where"), checks.amount(result, rank, "whole")
            message = (
                f"With {case.label}: full_state_dict() was called between two steps, and the caller dropped its result. "
                f"Then rank {rank} holds {held:,.0f} bytes of parameters {where if isinstance(where, str) else ''}. Its "
                f"shard and two units are {job.most_bytes:,} bytes. {_whole(job, whole)} Before the call, the rank kept "
                "within the limit. Keep no reference to the result or its tensors, and free each unit that full_state_dict() gathers."
            )
            texts = f"at most {job.allowed_bytes:,} bytes", f"{held:,.0f} bytes"
            raise bench.lost(case, "too_much_memory", message, rank, *texts)


def _wrong_state(job: Job, got: Any, right: dict[str, Array], history: list[dict[str, Array]]) -> str:
    """What is wrong with a state; empty if nothing is."""
    if not isinstance(got, dict):
        return f"is {plain.in_words(got)}. Return a dict of tensors, like module.state_dict()."
    names = [name for name in job.values if name.rpartition(".")[2] != NOT_SAVED]
    missing, more = [name for name in names if name not in got], [name for name in got if name not in names]
    if missing or more:
        return _wrong_names(missing, more)
    for name in names:
        tensor, given = got[name], job.values[name]
        if tensor is False:
            return f"has {name!r} in memory that was freed. Copy what you return before you free the unit."
        if not isinstance(tensor, Strided):
            return f"has {plain.in_words(tensor)} as {name!r} instead of a tensor."
        if tensor.shape != given.shape:
            shapes = f"in shape {tuple(tensor.shape)} instead of {given.shape}"
            return f"has {name!r} {shapes}. Return every parameter whole and without padding."
        if tensor.storage.dtype != given.dtype:
            return f"has {name!r} as {tensor.storage.dtype} instead of {given.dtype}."
        if not np.allclose(tensor.view(), right[name], NEAR, NEAR):
            return f"has a wrong {name!r}{_state_habit(tensor.view(), name, right, history)}"
    return ""


def _wrong_names(missing: list[str], more: list[str]) -> str:
    said = []
    if missing:
        what = "buffers" if not any(map(training.is_parameter, missing)) else "entries"
        said.append(f"lacks the {what} {says.some([repr(name) for name in missing], 3)}")
    if more:
        said.append(f"also has {says.some([repr(str(name)[:60]) for name in more], 3)}")
    kept = " A buffer with persistent=False is not saved." if any(name.endswith(NOT_SAVED) for name in more) else ""
    return f"{' and '.join(said)}. Return exactly the names of the unwrapped module's state_dict().{kept}"


def _state_habit(got: Array, name: str, right: dict[str, Array], history: list[dict[str, Array]]) -> str:
    if training.is_count(name) and np.array_equal(got, history[0][name]):
        return f". It is still {int(got)}, although {EVALUATED} forward passes have changed it. Buffers change: take each from the module when the state is asked for."
    if not right[name].shape or not got.any():
        return ". Every element is zero: fill the tensor before you return it." if not got.any() else "."
    for number, values in enumerate(history):
        if values[name] is not right[name] and np.allclose(got, values[name], NEAR, NEAR):
            return f". Its values are those after {number} steps. Gather the shards anew when the state is asked for."
    same = np.isclose(got, right[name], NEAR, NEAR).mean()
    return f". {100 * same:.0f} % of its elements are right." if same else "."
