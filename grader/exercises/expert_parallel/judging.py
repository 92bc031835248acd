"""Judges of expert_parallel: outputs and gradients."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grader import says
from grader.exercises.common import checks, plain
from grader.exercises.expert_parallel import moe, sending
from grader.exercises.expert_parallel.found import Found, Judge
from grader.exercises.expert_parallel.moe import Array, Batch, Layer
from grader.lost import Lost
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench

NEAR, FLOOR = 1e-5, 0.1  # relative to the greatest magnitude of the tensor, or to this where that is less
ALIKE = 1e-4  # how near a result is to a mistake's that is named
WRONG = "the outputs are wrong"  # why a check about something else does not judge
BEFORE = "The outputs of all earlier steps were right. Check also what forward() keeps from one call to the next."
NAMES = ("first weight", "first bias", "second weight", "second bias")


def calls(bench: RankBench, group: str) -> Iterator[tuple[Case, Found]]:
    """The finished calls of `group`, without forbidden calls and open requests."""
    for case, result in bench.calls(group):
        checks.clean(bench, case, result)
        yield case, Found(bench, case, result)


def calls_without_tokens(bench: RankBench, group: str) -> Iterator[tuple[Case, Found]]:
    """The same where ranks or experts have no tokens. Where a call ends badly it says of which case that is."""
    try:
        yield from calls(bench, group)
    except Lost as loss:
        if loss.picture is None or loss.picture.result is not None:
            raise
        message = f"With {loss.picture.case.label}: {loss.diagnosis.message}"
        raise Lost(replace(loss.diagnosis, message=message), loss.picture) from None


def _finished(bench: RankBench, groups: Sequence[str]) -> Iterator[tuple[Case, Found]]:
    """The calls of the first of `groups`, and those of the others up to the first that is no good: that costs the points
    of a check of its own."""
    yield from calls(bench, groups[0])
    for group in groups[1:]:
        found = []
        with contextlib.suppress(Lost):
            for each in calls(bench, group):
                found.append(each)
        yield from found


def judged(groups: Sequence[str], judge: Judge) -> Callable[[RankBench], Outcome]:
    """Makes a check of a judge of something else than the outputs: it is asked about the calls whose outputs are right,
    in the first of `groups` and, as far as the calls finish there, in the others. On each engine at least one must
    be, on several ranks and in the first group."""

    def check(bench: RankBench) -> Outcome:
        wrong: dict[str, Lost] = {}  # by engine
        right: set[str] = set()
        for case, found in _finished(bench, groups):
            try:
                output(bench, case, found)
            except Lost as loss:
                wrong.setdefault(case.engine, loss)
                continue
            if case.group == groups[0] and case.ranks > 1:
                right.add(case.engine)
            judge(bench, case, found)
        for engine, first in wrong.items():
            if engine not in right:
                raise Lost(checks.not_judged(first.diagnosis, WRONG), first.picture)
        return bench.picture(groups[0])

    return check


def _array(value: Any, shape: tuple[int, ...]) -> Array | None:
    got = checks.array(value)
    return got.astype(np.float64) if got is not None and got.shape == shape and got.dtype.kind == "f" else None


def _wrong(got: Array, right: Array, floor: float = FLOOR) -> tuple[int, ...] | None:
    """The place of the greatest difference, where that is too great."""
    if not right.size:
        return None
    off = np.abs(got - right)
    off[~np.isfinite(off)] = np.inf
    at = np.unravel_index(int(np.argmax(off)), right.shape)
    allowed = NEAR * max(float(np.abs(right).max()), floor)
    return tuple(map(int, at)) if off[at] > allowed else None


def _alike(got: Array, other: Array) -> bool:
    return bool(np.allclose(got, other, rtol=ALIKE, atol=ALIKE * max(float(np.abs(other).max(initial=0)), FLOOR)))


# ---- outputs


def output(bench: RankBench, case: Case, found: Found) -> None:
    """The outputs of every rank's tokens."""
    for step in found.steps:
        rights = found.job.right[step].outputs
        gots = [_array(found.told(rank, step, "output"), right.shape) for rank, right in enumerate(rights)]
        for rank, (got, right) in enumerate(zip(gots, rights, strict=True)):
            if got is None:
                came = plain.in_words(found.told(rank, step, "output"))
                what = f"{found.when(step)}forward returned {came} on rank {rank}. Return a float tensor of shape "
                raise found.lost("wrong_result", f"{what}{right.shape}, a row for each of the rank's tokens.", rank)
            at = _wrong(got, right)
            if at is None:
                continue
            one, other = plain.apart(float(got[at]), float(right[at]))
            what = (
                f"{found.when(step)}rank {rank}'s output for its token {at[0]} is {one} at feature {at[1]}. "
                f"One process on all ranks' tokens gives {other}. {_why_output(found, step, gots, rank, at[0])}"
            )
            raise found.lost("wrong_result", what.rstrip(), rank, other, one)


def _why_output(found: Found, step: int, gots: list[Array | None], rank: int, token: int) -> str:
    layer, batch, right = found.layer, found.job.batches[step], found.job.right[step]
    fitting = [
        told
        for mistaken, told in moe.mistakes(layer, batch)
        if all(got is not None and _alike(got, row) for got, row in zip(gots, mistaken.outputs, strict=True))
    ]
    if len(set(fitting)) == 1:
        return fitting[0]
    got, row = gots[rank], right.outputs[rank][token]
    assert got is not None
    routing = moe.route(layer, batch)
    at = np.flatnonzero(batch.rank == rank)[token]
    if not row.any():
        return "All pairs of this token are dropped, so its output is zero."
    if not got[token].any():
        kept = int(routing.kept[at].sum())
        return f"The whole row is zero, but {kept} of the token's {layer.k} pairs {'is' if kept == 1 else 'are'} kept."
    if all(
        each is not None and np.allclose(each, whole, 0.02, 0.02)
        for each, whole in zip(gots, right.outputs, strict=True)
    ):
        return "All outputs are nearly right, but not to float32's precision. Compute and send in float32."
    for owner, rows in enumerate(right.outputs):
        for place, other in enumerate(rows):
            if other.any() and _alike(got[token], other) and (owner, place) != (rank, token):
                whose = f"token {place}" if owner == rank else f"rank {owner}'s token {place}"
                return f"This is the output of {whose}. Put the rows back in the order of the tokens."
    told = _token(layer, batch, at, got[token])
    return f"{told} {BEFORE}" if step else told


def _token(layer: Layer, batch: Batch, at: int, got: Array) -> str:
    """What a token's experts are, what the rule keeps of them, and what its row holds instead."""
    routing = moe.route(layer, batch)
    chosen = [f"expert {expert} on rank {layer.owner(int(expert))}" for expert in routing.chosen[at]]
    told = f"The token chooses {says.listed(chosen, 'and then')}."
    dropped = [expert for expert, kept in zip(chosen, routing.kept[at], strict=True) if not kept]
    if layer.capacity is not None:
        told += (
            f" The rule drops {says.listed(dropped, 'and')} for it."
            if dropped
            else " The rule drops none of its pairs."
        )
    held = moe.shares(layer, batch, at, got)
    if held is None:
        return (
            f"{told} Its output is not any weighted sum of what {'these experts give' if layer.k > 1 else 'this expert gives'} "
            "for its own row. Check which rows the experts get, and where their outputs go."
        )
    now, right = (says.listed([f"{part:.3g}" for part in np.where(np.abs(each) < 1e-4, 0.0, each)]) for each in held)
    whose, they = ("Their outputs", "They") if layer.k > 1 else ("The expert's output", "It")
    told += (
        f" {whose} count{'s' * (layer.k == 1)} {now} times in the token's output. {they} should count {right} times."
    )
    alone = [expert for expert, part in zip(chosen, held[0], strict=True) if abs(part - held[1].sum()) < ALIKE]
    gone = [
        expert
        for expert, kept, part in zip(chosen, routing.kept[at], held[0], strict=True)
        if kept and abs(part) < 1e-4
    ]
    if layer.k > 1 and len(alone) == 1 and np.count_nonzero(np.abs(held[0]) > ALIKE) == 1:
        told += f" This is what comes out if {alone[0]} computes all rows of this token."
    elif gone and layer.capacity is not None and layer.k > 1:
        told += (
            f" {gone[0].capitalize()} is missing, although the rule keeps it. All first choices come before any second "
            "choice, and a token's first choice is the expert with its largest logit."
        )
    return told


# ---- gradients


def _gradient(
    found: Found, step: int, rank: int, name: str, told: Any, whole: Array, why: Callable[[Array], str],
    floor: float = FLOOR,
) -> None:  # fmt: skip
    """Raise Lost where a gradient, of which None counts as zero, is not `whole`."""
    got = np.zeros(whole.shape) if told is None else _array(told, whole.shape)
    if got is None:
        what = f"{name} on rank {rank} is {plain.in_words(told)} instead of a float tensor of shape {whole.shape}."
        raise found.lost("wrong_result", f"{found.when(step)}{what}", rank)
    at = _wrong(got, whole, floor)
    if at is not None:
        one, other = plain.apart(float(got[at]), float(whole[at]))
        came = "None, which counts as zero" if told is None else f"{one} at {at}"
        right = f"{other} at {at}" if told is None else other
        what = f"{found.when(step)}{name} on rank {rank} is {came}. One process gives {right}. {why(got)}"
        raise found.lost("wrong_result", what.rstrip(), rank, other, one)


def inputs(bench: RankBench, case: Case, found: Found) -> None:
    """The gradient of x, on every rank."""
    for step in found.steps:
        for rank, whole in enumerate(found.job.right[step].inputs):
            told = found.told(rank, step, "input")
            why = functools.partial(_why_input, found, step, rank)
            _gradient(found, step, rank, "the gradient of x", told, whole, why)


def _why_input(found: Found, step: int, rank: int, got: Array) -> str:
    layer, batch, right = found.layer, found.job.batches[step], found.job.right[step]
    if found.told(rank, step, "attached") is False:
        return "The output does not depend on x: no operation on the way may detach it, also not a collective."
    if _alike(got, right.inputs[rank] - right.through_router[rank]):
        return (
            "The part that goes through the weights is missing: the router must get a gradient, too, and pass it on. "
            "Do not detach the weights."
        )
    if _alike(got, right.through_router[rank]):
        return (
            "Only the part that goes through the weights is there: the path from x through the experts to the output is "
            "cut. detach() and no_grad() cut it. So does a call like dist.all_to_all_single, which has no gradient: write "
            "the exchange as a torch.autograd.Function whose backward sends the gradients back the same way."
        )
    alone = [moe.solve(layer, batch, moe.only(layer, batch, choice)) for choice in range(layer.k)]
    rows = [right.through_router[rank] + one.inputs[rank] - one.through_router[rank] for one in alone]
    if layer.k > 1 and all(any(_alike(mine, one[at]) for one in rows) for at, mine in enumerate(got)):
        return f"Of a token's {layer.k} rows only one counts. Add up the gradients of all rows of a token."
    for mistaken, told in moe.mistakes(layer, batch):
        if _alike(got, mistaken.inputs[rank]):
            return told
    return _scaled(got, right.inputs[rank], found.n)


def _scaled(got: Array, right: Array, n: int) -> str:
    if n > 1 and _alike(got, right * n):
        return f"It is {n} times too large: it is summed over ranks that have it already."
    if n > 1 and _alike(got * n, right):
        return f"It is {n} times too small. The losses of the ranks add up, so divide nothing by the number of ranks."
    return "" if got.any() else "It is zero everywhere."


def experts(bench: RankBench, case: Case, found: Found) -> None:
    """The gradients of every rank's experts."""
    each = len(found.layer.experts) // found.n
    for step in found.steps:
        for expert, wholes in enumerate(found.job.right[step].experts):
            rank = found.layer.owner(expert)
            held = _listed(_listed(found.told(rank, step, "experts"), each)[expert % each], len(wholes))
            for which, whole in enumerate(wholes):
                name = f"the gradient of expert {expert}'s {NAMES[which]}"
                why = functools.partial(_why_expert, found, step, expert, which, held[which] is None)
                _gradient(found, step, rank, name, held[which], whole, why)


def _listed(told: Any, count: int) -> list[Any]:
    return told if isinstance(told, list) and len(told) == count else [None] * count


def _why_expert(found: Found, step: int, expert: int, which: int, none: bool, got: Array) -> str:
    layer, batch, right = found.layer, found.job.batches[step], found.job.right[step].experts
    each = len(layer.experts) // found.n
    if none:
        return "Call the expert modules that the layer was given, and detach nothing between them and the output."
    alike = [right[rank * each + expert % each][which] for rank in range(found.n)]  # in the same place of each rank
    for total, word in ((np.sum(alike, 0), "the sum"), (np.mean(alike, 0), "the mean")):
        if found.n > 1 and _alike(got, total):
            return (
                f"It is {word} over the ranks' experts in this place. These are different experts: reduce the router's "
                "gradient only, and leave those of the experts as they are."
            )
    own = moe.solve(layer, Batch(batch.x, tuple(
        wish if rank == layer.owner(expert) else np.zeros_like(wish) for rank, wish in enumerate(batch.wish)
    )))  # fmt: skip
    if found.n > 1 and _alike(got, own.experts[expert][which]):
        return (
            f"Only the tokens of rank {layer.owner(expert)} itself count. The gradients of the others' must come back."
        )
    for mistaken, told in moe.mistakes(layer, batch):
        if _alike(got, mistaken.experts[expert][which]):
            return told
    return _scaled(got, right[expert][which], found.n)


def router(bench: RankBench, case: Case, found: Found) -> None:
    """The router's gradient, which is the sum over the ranks, on every rank; one collective for each parameter."""
    floor = (
        1.0 if found.layer.k == 1 else FLOOR
    )  # of zero there is what p / p loses, times tokens and outputs of about 3
    for step in found.steps:
        for rank in range(found.n):
            held = _listed(found.told(rank, step, "router"), 2)
            for which, whole in enumerate(found.job.right[step].router_sum):
                name = f"after finish_gradient_sync(), the gradient of the router's {('weight', 'bias')[which]}"
                why = functools.partial(_why_router, found, step, rank, which)
                _gradient(found, step, rank, name, held[which], whole, why, floor)
    sending.finish(found)


def _why_router(found: Found, step: int, rank: int, which: int, got: Array) -> str:
    right, n = found.job.right[step], found.n
    if found.layer.k == 1:
        return "With k = 1 the weight is 1, whatever the logits are, so the router's gradient is zero."
    if n > 1 and _alike(got, right.router[rank][which]):
        return "It is the rank's own part of the sum. Add up the router's gradients of all ranks."
    if n > 1 and _alike(got * n, right.router_sum[which]):
        return f"It is the mean over the {n} ranks. The losses add up, so the gradients do, too: take the sum."
    if not got.any():
        return "It is zero: the weights were detached from the graph, or no token's weight reached the output."
    before = found.job.right[step - 1].router_sum[which] if step else None
    if before is not None and _alike(got, right.router_sum[which] + before):
        return "The gradient of the step before was added. Set .grad, and keep nothing from one step to the next."
    return _scaled(got, right.router_sum[which], n)
