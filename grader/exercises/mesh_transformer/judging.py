"""Judges of mesh_transformer: the losses of every step, memory, collectives, and what a checkpoint holds."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from grader import says, tally
from grader.exercises.common import checks, plain
from grader.exercises.mesh_transformer import training
from grader.exercises.mesh_transformer.training import Array, Job, Mesh
from grader.ranks.program import CallResult
from grader.trace.events import Operation
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

NEAR = 1e-4  # relative, of a loss
EXACT, ROUNDED = (
    2e-6,
    2e-3,
)  # the same, before any update: what float32 keeps to, and what less precision does not exceed
SLACK = 1.1  # of the bytes of parameters and state: norms, and what padding takes
SMALL = 4  # what is smaller than this part of an activation is a count, a loss or a norm's gradient
MORE = 3  # collectives in each pass for the embedding, the last norm and the head
WRONG = "the losses are wrong"  # why a check about something else does not judge
VIEWS = "They are cut, but lie in larger memory and keep all of it alive. Copy slices with clone()."
STATES = "exp_avg", "exp_avg_sq"  # of AdamW, for each parameter


def named(mesh: Mesh) -> str:
    """The mesh in words."""
    return " x ".join(f"{name} {size}" for name, size in mesh)


# ---- losses


def values(bench: RankBench, group: str) -> Iterator[tuple[Case, CallResult]]:
    """The calls of `group` whose losses are one process's in every step. Raises Lost at the first without."""
    for case, result in bench.calls(group):
        checks.undisturbed(bench, case, result)
        _right_losses(bench, case, result)
        yield case, result


def _right_losses(bench: RankBench, case: Case, result: CallResult) -> None:
    job: Job = case.expected
    right = training.losses(job)
    got = np.empty((case.ranks, job.steps))
    for rank in range(case.ranks):
        told = checks.field(result, rank, "losses")
        if not isinstance(told, list) or len(told) != job.steps:
            raise bench.lost(case, "wrong_result", f"With {case.label}: the grader has no losses of rank {rank}.", rank)
        for step, loss in enumerate(told):
            if (number := _number(loss)) is None:
                what = (
                    f"With {case.label}: in step {step + 1}, train_step returns {plain.in_words(loss)} on rank {rank}."
                )
                raise bench.lost(case, "wrong_result", f"{what} Return the loss as a float, on every rank.", rank)
            got[rank, step] = number
    wrong = ~(np.abs(got - right) <= NEAR * np.abs(right))
    if not wrong.any():
        return
    step = int(np.argmax(wrong.any(0)))
    rank = int(np.argmax(wrong[:, step]))
    one, other = plain.apart(float(got[rank, step]), right[step])
    where = f"in step {step + 1} of {job.steps}"
    if job.other:
        before = len(job.tokens)
        saving = "before the first save" if step < training.FIRST_SAVE else "between the two saves"
        where += f" ({saving if step < before else f'step {step + 1 - before} after load'})"
    message = (
        f"With {case.label}: {where}, rank {rank} returns a loss of {one}. One process on all ranks' tokens has "
        f"{other}. {_why(job, got, np.array(right), step)}"
    )
    raise bench.lost(case, "wrong_result", message, rank, other, one)


def _number(loss: object) -> float | None:
    return float(loss) if isinstance(loss, (int, float)) and not isinstance(loss, bool) else None


def _why(job: Job, got: Array, right: Array, step: int) -> str:
    mesh = job.other if step >= len(job.tokens) else job.mesh
    counts = [int(mask[:, 1:].sum()) for mask in list(job.batches())[step][1]]
    if np.isnan(got[:, step]).any():
        empty = [rank for rank, count in enumerate(counts) if not count]
        if empty:
            return f"Data-parallel {says.names(empty)} {'has' if len(empty) == 1 else 'have'} no counted token in this step. Divide by the count of all ranks, never by a rank's own."
        return "It is not a number."
    first = len(job.tokens)
    loaded = bool(job.other) and step >= first
    for losses, sentence in (*(training.forgotten(job) if loaded else ()), *training.mistakes(job)):
        seen = slice(0, first if job.other and not loaded else job.steps)
        away = float(np.abs(got[:, seen] - losses[seen]).max())
        if 2 * away > np.abs(got[:, seen] - right[seen]).max():
            continue  # the right ones are as near, as where this mistake does not show
        if np.allclose(got[:, seen], losses[seen], rtol=1e-3, atol=0):
            return f"The losses are those of {sentence}"
    tp = dict(mesh).get("tp", 1)
    if tp > 1 and np.allclose(got[:, step] * tp, right[step], rtol=1e-3):
        return f"It is {tp} times too small: the ranks of a tp group have the same tokens. Count each token once."
    for size in sorted({size for name, size in mesh if name != "tp" and size > 1}):
        if np.allclose(got[:, step], right[step] * size, rtol=1e-4):
            names = says.listed(name for name, each in mesh if each == size and name != "tp")
            return (
                f"It is {size} times too large, and {size} is the size of {names}. Add up the losses and the counts over "
                "the same ranks: those of all data-parallel dimensions."
            )
    each = got[::tp, step]
    if len(each) > 1 and np.isclose(each.sum(), right[step], rtol=1e-3):
        return "Together, the data-parallel ranks return the right loss. All-reduce their parts, and return the sum."
    if np.ptp(got[:, step]) > NEAR * abs(right[step]):
        shown = ", ".join(f"{loss:.5g}" for loss in got[:, step])
        return f"The ranks return different losses ({shown}). Every rank must return the loss of all ranks' tokens."
    off = float(np.abs(got[:, 0] / right[0] - 1).max())
    if EXACT < off < ROUNDED:
        return (
            f"The loss is off by {100 * off:.2g} % before any update, and float32 keeps within {100 * EXACT:g} %. Check that "
            "all is computed in float32, and that the loss is not rounded."
        )
    if loaded:
        fix = "If other checks lose points, fix these first."
        if step > first:
            return (
                "The losses before save are right, and so is the first one after load, which needs the saved parameters. "
                f"{fix} Check the optimizer's state that save writes and load restores, and the updates on the mesh {named(mesh)}."
            )
        return (
            f"The losses before save are right. {fix} Check the last update before save, what save writes, what load "
            f"restores, and the forward pass on the mesh {named(mesh)}."
        )
    if job.other and not loaded:
        before = (
            f"The {'loss' if step == 1 else 'losses'} before {'is' if step == 1 else 'are'} right. " if step else ""
        )
        rule = "That must not"
        if step >= training.FIRST_SAVE:
            rule = "This model was saved after its first step. Neither may"
        return (
            f"{before}If other checks lose points, fix these first. Here a second model, for {named(job.other)}, was laid "
            f"out before the first step. {rule} change how this model trains. Keep what train_step needs of a mesh on the "
            "model, not in a global variable."
        )
    if step == 0:
        return "No parameter has been updated yet, so the forward pass or the mean over the tokens is at fault."
    before = "loss of the step before is" if step == 1 else f"losses of the {step} steps before are"
    return (
        f"The {before} right. The gradients or the update of step {step} "
        "are at fault: check over which ranks gradients are added up, and by what they are divided."
    )


# ---- memory


@checks.judged(values, "sizes", WRONG)
def memory(bench: RankBench, case: Case, result: CallResult) -> None:
    """A rank's parameters and each of AdamW's state tensors take their share of the memory."""
    job: Job = case.expected
    for rank in range(case.ranks):
        held = checks.field(result, rank, "held")
        held = held if isinstance(held, dict) else {}
        for name in ("parameters", *STATES):
            told = plain.number(held.get(name))
            if told is None or told <= 0:
                what = (
                    f"With {case.label}: on rank {rank}, the optimizer that was made from model.parameters() has no {name}."
                    if name in STATES
                    else f"With {case.label}: model.parameters() of rank {rank} has no memory."
                )
                raise bench.lost(case, "wrong_result", f"{what} It must step the parameters that it was given.", rank)
            tally.note("parameters on a rank", told, SLACK * job.allowed(), "bytes", where=case.label,
                       reference=job.bytes, of="the whole model")  # fmt: skip
            if told > SLACK * job.allowed():
                own = checks.amount(result, rank, "own") if name == "parameters" else math.inf
                raise bench.lost(
                    case, "too_much_memory",
                    f"With {case.label}: {_what(name)} take {told:,.0f} bytes on rank {rank}, "
                    f"{100 * told / job.bytes:.0f} % of the whole. {_share(job, own)}", rank,
                    f"at most {SLACK * job.allowed():,.0f} bytes", f"{told:,.0f} bytes",
                )  # fmt: skip
    _complete(bench, case, result)


def _complete(bench: RankBench, case: Case, result: CallResult) -> None:
    """Raise Lost where the ranks of a replica do not have the whole model together."""
    job: Job = case.expected
    each = case.ranks // dict(job.mesh).get("dp_replicate", 1)
    for first in range(0, case.ranks, each):
        ranks = range(first, first + each)
        told = sum(plain.number(checks.field(result, rank, "held")["parameters"]) or 0 for rank in ranks)
        if told < job.bytes:
            raise bench.lost(
                case, "wrong_result",
                f"With {case.label}: {says.names(ranks)} {'is' if each == 1 else 'are'} one replica. Together they have "
                f"parameters of {told:,.0f} bytes, and the model has {job.bytes:,} bytes. Each replica must have the whole "
                "model. Shard over dp_shard, and not over dp_replicate.", first,
                f"at least {job.bytes:,} bytes", f"{told:,.0f} bytes",
            )  # fmt: skip


def _what(name: str) -> str:
    return "the parameters" if name == "parameters" else f"the optimizer's tensors {name}"


def _share(job: Job, own: float) -> str:
    """What a rank may keep, and what to do. `own`: the bytes of its parameters without what they keep alive."""
    sizes = dict(job.mesh)
    shard, tp = sizes.get("dp_shard", 1), sizes.get("tp", 1)
    parts = [f"1/{shard * tp} of attention and mlp"] if shard * tp > 1 else []
    parts.append(f"1/{shard} of all else" if shard > 1 else "all else whole")
    return (
        f"A rank may keep {' and '.join(parts)}, and a tenth more: {100 * SLACK * job.allowed() / job.bytes:.0f} % here. "
        f"{_advice(shard, tp) if own > SLACK * job.allowed() else VIEWS}"
    )


def _advice(shard: int, tp: int) -> str:
    if shard > 1 and tp > 1:
        return "Cut attention and mlp over tp first, then shard every parameter over dp_shard."
    return "Shard every parameter over dp_shard." if shard > 1 else "Cut q, k, v, o, up and down over tp."


# ---- collectives


@checks.judged(values, "sizes", WRONG)
def traffic(bench: RankBench, case: Case, result: CallResult) -> None:
    """Tensor parallelism communicates inside its groups, and seldom enough."""
    job: Job = case.expected
    tp = dict(job.mesh).get("tp", 1)
    if tp == 1:
        return
    allowed = 4 * job.layers  # halves: an all-reduce is a reduce-scatter and an all-gather
    for rank in range(case.ranks):
        mine = rank // tp
        large = [op for op in checks.by_step(result, rank, len(job.tokens))[0] if op.size * SMALL >= job.activation]
        own, mixed, over = [], [], tuple[int, ...]()
        for op in large:
            ranks = result.trace.groups.get(op.tag, (rank,)) if op.collective else (rank, op.peer)
            if all(each // tp == mine for each in ranks):
                own.append(op)
            elif any(each % tp != rank % tp for each in ranks):
                mixed.append(op)
                over = over or tuple(ranks)
        if mixed:
            raise bench.lost(
                case, "too_many_messages",
                f"With {case.label}: rank {rank} calls {_names(mixed)}. The group of {says.names(over)} is neither a "
                "tensor-parallel nor a data-parallel one. Use mesh['tp'] for the parts of a layer, and the dp dimensions for gradients.",
                rank, "groups of one dimension of the mesh", f"{says.counted(len(mixed), 'collective')} across both",
            )  # fmt: skip
        for what, ops in (("forward", [op for op in own if not op.backward]),
                          ("backward", [op for op in own if op.backward])):  # fmt: skip
            weights = sorted((2 if op.name.startswith("all_reduce") else 1) for op in ops)
            halves = sum(weights[: max(0, len(weights) - MORE)])
            tally.note(f"tensor-parallel collectives, {what}", len(ops), allowed + MORE, where=case.label)
            if halves > allowed:
                raise bench.lost(
                    case, "too_many_messages",
                    f"With {case.label}: in the {what} pass, rank {rank} calls {_names(ops)} in its tensor-parallel group. "
                    f"{job.layers} layers need two all-reduces each, and embedding, norm and head at most {MORE} more "
                    f"collectives. {_habit(what)}", rank,
                    f"at most {2 * job.layers} all-reduces and {MORE} more", f"{says.counted(len(ops), 'collective')}",
                )  # fmt: skip


def _names(ops: list[Operation]) -> str:
    names = [op.name for op in ops]
    return says.listed([f"{name} {says.counted(names.count(name), 'time')}" for name in dict.fromkeys(names)])


def _habit(what: str) -> str:
    if what == "backward":
        return (
            "q, k and v read the same input: add up its three gradients on the rank, and all-reduce the sum once. "
            "A PrepareModuleInput on the whole attention does that."
        )
    return "Cut q, k, v and up by columns, o and down by rows, and gather nothing between them."


# ---- checkpoints


@checks.judged(values, "checkpoint")
def checkpoint(bench: RankBench, case: Case, result: CallResult) -> None:
    """What was loaded on another mesh trains on as if nothing had happened, and the files hold all of it."""
    job: Job = case.expected
    files = checks.field(result, 0, "files")
    sizes = {str(name): plain.number(size) or 0 for name, size in files.items()} if isinstance(files, dict) else {}
    if not any(name.endswith(".metadata") for name in sizes):
        listed = says.some([repr(name) for name in sizes], 3) if sizes else "no file"
        what = f"With {case.label}: save leaves {listed} in its folder, and no .metadata. Use torch.distributed.checkpoint."
        raise bench.lost(case, "wrong_result", what, 0)
    least, told = 0.9 * 3 * job.bytes, math.fsum(sizes.values())
    tally.note("bytes in the checkpoint", told, least, "bytes", where=case.label, at_least=True, reference=3 * job.bytes,
               of="parameters and two states")  # fmt: skip
    if told < least:
        what = (
            f"With {case.label}: the files of the checkpoint have {told:,.0f} bytes. The parameters and AdamW's two states "
            f"are {3 * job.bytes:,} bytes: save all of them."
        )
        raise bench.lost(case, "wrong_result", what, 0, f"at least {least:,.0f} bytes", f"{told:,.0f} bytes")
