"""Gradient accumulation under DDP: many micro-batches, one step, one synchronisation (Li et al. 2020, section 3.2.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from grader import says, tally
from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks, plain
from grader.exercises.gradient_accumulation import steps as right
from grader.exercises.gradient_accumulation.steps import Array, Micro
from grader.ranks.program import CallResult, Function, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Outcome, RankBench, Ranks

IN, HIDDEN, OUT, LR = 4, 6, 3, 0.3
WORLDS = (1, 2, 3, 4)
MINUS_100, TWICE = "values of -100", "the last micro-batch is the first once more, the same tuple"
CLASSES, VALUES = "cross entropy", "mean squared error"
SHAPES = ((HIDDEN, IN), (HIDDEN,), (OUT, HIDDEN), (OUT,))


@dataclass(frozen=True)
class Wanted:
    """What a case must come to, and what it is made of."""

    parameters: tuple[Array, ...]
    batches: tuple[tuple[tuple[Micro, ...], ...], ...]  # by rank, step and micro-batch

    @property
    def steps(self) -> int:
        return len(self.batches[0])


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check; sizes are those of one rank's micro-batches, step by step."""
    for n in WORLDS:
        yield _case(draw, "even", n, VALUES, [[4, 4, 4]] * 3)
        yield _case(draw, "even", n, CLASSES, [[4, 4, 4, 4]] * 2)
        yield _case(draw, "uneven", n, VALUES, [[5, 1, 3], [2, 7, 2]])
        yield _case(draw, "uneven", n, CLASSES, [[6, 6, 6], [3, 8, 5]], ignored=0.4)
        yield _case(draw, "incomplete", n, VALUES, [[3, 3, 3], [3, 3], [3]])
    yield _case(draw, "rare", 2, VALUES, [[3, 3], [4, 4]], special=MINUS_100)
    yield _case(draw, "even", 2, VALUES, [[4, 4, 4]], special=TWICE)
    yield _case(draw, "real", 2, CLASSES, [[6, 2, 6], [3, 8, 5]], ignored=0.4, engine="gloo")


def _case(
    draw: Draw, group: str, n: int, loss: str, sizes: Sequence[Sequence[int]], ignored: float = 0.0,
    engine: str = "sim", special: str = "",
) -> Case:  # fmt: skip
    """A case; values of -100 are in the first micro-batch of the last step."""
    parts = [
        f"{says.counted(len(step), 'micro-batch', 'micro-batches')} of {'+'.join(map(str, step))}" for step in sizes
    ]
    told = ", then ".join(parts)
    label = f"{n} rank{'s' * (n > 1)}, {loss}, {told if len(set(map(tuple, sizes))) > 1 else told.split(',')[0]}"
    label += f", {special}" if special else ""
    random = draw.generator(f"{group} {label}")
    parameters = tuple(random.standard_normal(shape) for shape in SHAPES)
    micro = partial(_micro, random, loss=loss, ignored=ignored)
    batches = tuple(tuple(tuple(micro(size) for size in step) for step in sizes) for _ in range(n))
    for mine in batches if special == MINUS_100 else ():
        mine[-1][0][1][1:] = -100.0
    if special == TWICE:
        batches = tuple(tuple((*step[:-1], step[0]) for step in mine) for mine in batches)
    given = tuple(
        (
            [Strided.of(parameter) for parameter in parameters], loss, LR,
            [[[Strided.of(x), Strided.of(y)] for x, y in step] for step in mine],
        )
        for mine in batches
    )  # fmt: skip
    return Case(group, label, given, engine=engine, by="train", expected=Wanted(parameters, batches),
                simulated=group == "even")  # fmt: skip


def _micro(random: np.random.Generator, size: int, loss: str, ignored: float) -> Micro:
    inputs = random.standard_normal((size, IN))
    if loss == VALUES:
        return inputs, random.standard_normal((size, OUT))
    targets = random.integers(0, OUT, size)
    targets[1:][random.random(size - 1) < ignored] = -100  # one target is left, for a mean to be of
    return inputs, targets


def _same(got: Sequence[Array | None], wanted: Sequence[Array]) -> bool:
    if len(got) != len(wanted):
        return False
    pairs = zip(got, wanted, strict=True)
    return all(a is not None and a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in pairs)


def _found(bench: RankBench, case: Case, result: CallResult, rank: int) -> dict[str, Any]:
    found = result.returned[rank]
    if not isinstance(found, dict):
        raise bench.lost(case, "wrong_result", f"With {case.label}: the training on rank {rank} has no result.", rank)
    return found


def _parameters(bench: RankBench, case: Case, result: CallResult) -> None:
    """The parameters after all steps are those of the big batch."""
    wanted: Wanted = case.expected
    after, _ = right.train(wanted.parameters, LR, wanted.batches)
    for rank in range(case.ranks):
        found = _found(bench, case, result, rank)
        got = [checks.array(value) for value in found.get("parameters", ())]
        if _same(got, after):
            continue
        first = float(np.ravel(got[0])[0]) if got and got[0] is not None and got[0].size else float("nan")
        texts = plain.apart(first, float(after[0].flat[0]))
        what = (
            f"With {case.label}: after {wanted.steps} steps, the parameters of rank {rank} are not those of training "
            f"on whole batches. {_habit(wanted, got, found.get('steps')) or _drifted(bench, case, result)}"
        )
        raise bench.lost(case, "wrong_result", what, rank, f"first weight {texts[1]}", texts[0])


def _habit(wanted: Wanted, got: list[Array | None], steps: Any) -> str:
    if steps != wanted.steps:
        each = says.counted(steps, "step") if isinstance(steps, int) else "? steps"
        return f"The optimizer made {each} in {wanted.steps} calls. Step once per call, after all micro-batches."
    if any(value is not None and not np.isfinite(value).all() for value in got):
        return "Some of them are nan or inf. Check what the losses are multiplied with and divided by."
    if _same(got, wanted.parameters):
        return "They are unchanged. Check that .grad holds the gradients when optimizer.step() is called."
    for told, weights in right.MISTAKES:
        if _same(got, right.train(wanted.parameters, LR, wanted.batches, weights)[0]):
            return told
    if _same(got, right.train(wanted.parameters, LR, wanted.batches, zeroed=False)[0]):
        return "This is the result of gradients that are never set to zero. Set them to zero once in every step."
    if _same(got, right.train(wanted.parameters, LR, [wanted.batches[0]])[0]):
        return (
            "This is the result of rank 0's data alone. Run the last micro-batch outside model.no_sync(), and by a call "
            "of model itself: otherwise DDP averages nothing."
        )
    if _same(got, right.train(wanted.parameters, LR, wanted.batches, counts=right.not_minus_100)[0]):
        return "This is the result of leaving out values of -100. Only classes of -100 do not count: values all do."
    if _same(got, right.train(wanted.parameters, LR, wanted.batches, counts=len)[0]):
        return "This is the result of weights that count all targets. Leave targets of -100 out of the weights."
    return ""


def _drifted(bench: RankBench, case: Case, result: CallResult) -> str:
    """What to ask where no mistake is known that gives these parameters."""
    found = [_found(bench, case, result, rank).get("parameters", ()) for rank in range(case.ranks)]
    all_of_them = [[checks.array(value) for value in values] for values in found]
    first = [value for value in all_of_them[0] if value is not None]
    if not all(_same(got, first) for got in all_of_them):
        return (
            "The ranks have drifted apart. Run only the last micro-batch outside no_sync(), and do not scale averaged "
            "gradients by a rank's own numbers."
        )
    return (
        "A call must make the step that its micro-batches give as one batch, and keep nothing of the calls before it."
    )


def _trained(group: str, *others: str) -> checks.Judge:
    """All calls of these groups come to the right parameters."""
    return checks.right(RankBench.calls, group, _parameters, others=others, ranks=2)


def _synchronisations(bench: RankBench) -> Outcome:
    """One all-reduce of the gradients a step: these models fit into one bucket."""
    for group in ("even", "uneven"):
        for case, result in bench.calls(group):
            for rank in range(case.ranks):
                _one_at_a_time(bench, case, result, rank)
    for case, result in bench.calls("even"):
        wanted: Wanted = case.expected
        for rank in range(case.ranks):
            calls = [op for op in result.trace.operations(rank) if op.name.startswith("all_reduce")]
            tally.note("all-reduces of the gradients", len(calls), wanted.steps, "all-reduces", where=case.label,
                       reference=sum(map(len, wanted.batches[rank])), of="one for each micro-batch")  # fmt: skip
            if len(calls) == wanted.steps:
                continue
            micro = sum(map(len, wanted.batches[rank]))
            each = f"{says.counted(len(calls), 'all-reduce')} in {says.counted(wanted.steps, 'step')}"
            if len(calls) < wanted.steps:
                what = f"rank {rank} made {each}. Average the gradients once in every step, or the ranks drift apart."
                raise bench.lost(case, "too_few_bytes", f"With {case.label}: {what}", rank, f"{wanted.steps}", each)
            why = "One in each step is enough, with the last micro-batch."
            if fewer := sum(op.size < max(call.size for call in calls) for op in calls):
                why = f"{says.counted(fewer, 'of them carries', 'of them carry')} fewer bytes than the gradients. Exchange nothing else."
            elif len(calls) == micro:
                why = (
                    "This is one for each micro-batch. Run all but the last inside model.no_sync(), the forward pass, "
                    "too: there DDP decides whether the backward pass synchronizes."
                )
            what = f"With {case.label}: rank {rank} made {each}. {why}"
            raise bench.lost(case, "too_many_messages", what, rank, f"{wanted.steps} all-reduces", each)
    return bench.picture("even", 2)


def _one_at_a_time(bench: RankBench, case: Case, result: CallResult, rank: int) -> None:
    """The model is given one micro-batch at once, not several: more do not fit on a device."""
    rows = _found(bench, case, result, rank).get("rows", [])
    for step, (given, micro) in enumerate(zip(rows, case.expected.batches[rank], strict=False)):
        sizes = [len(inputs) for inputs, _ in micro]
        if max(given, default=0) > max(sizes):
            had = f"was given {max(given)} samples at once. No micro-batch of this step has more than {max(sizes)}"
        elif len(given) < len(sizes):
            had = (
                f"was called with {says.listed(given)} samples. The step has {len(sizes)} micro-batches, of "
                f"{says.listed(sizes)} samples"
            )
        else:
            continue
        what = f"With {case.label}: on rank {rank}, in step {step}, the model {had}. Give the model one micro-batch at a time: more do not fit on a device."
        texts = f"calls with {says.listed(sizes)} samples", f"calls with {says.listed(given)} samples"
        raise bench.lost(case, "too_much_memory", what, rank, *texts)


def _losses(bench: RankBench) -> Outcome:
    """What is returned: each rank's mean loss over its own targets."""
    for group in ("even", "uneven"):
        for case, result in bench.calls(group):
            wanted: Wanted = case.expected
            _, losses = right.train(wanted.parameters, LR, wanted.batches)
            for rank in range(case.ranks):
                _loss_of(bench, case, rank, _found(bench, case, result, rank).get("returned"), losses)
    return bench.picture("even", 2)


def _loss_of(bench: RankBench, case: Case, rank: int, returned: Any, losses: list[list[float]]) -> None:
    values = returned if isinstance(returned, list) else []
    for step, mean in enumerate(losses[rank]):
        value = values[step] if step < len(values) else None
        if not isinstance(value, float):
            got = plain.in_words(value)
            what = f"With {case.label}: on rank {rank}, train_step returned {got}. Return the mean loss, as a float."
            raise bench.lost(case, "wrong_result", what, rank, "a float", got)
        if step == 0 and not np.isclose(value, mean, rtol=1e-6):  # later ones follow from the parameters
            got, right_text = plain.apart(value, mean)
            what = (
                f"With {case.label}: on rank {rank}, the first step returned {got}. The mean loss over the rank's "
                f"targets of all micro-batches is {right_text}."
            )
            others = [(f"rank {other}'s mean loss", loss[0]) for other, loss in enumerate(losses) if other != rank]
            mean_of_all = sum(loss[0] for loss in losses) / len(losses)
            for whose, each in (*others, ("the mean of all ranks' mean losses", mean_of_all)):
                if np.isclose(value, each, rtol=1e-6):
                    what += f" {got} is {whose}. Return this rank's own mean loss."
                    break
            else:
                what += _loss_habit(case.expected, rank, value)
            raise bench.lost(case, "wrong_result", what, rank, right_text, got)


def _loss_habit(wanted: Wanted, rank: int, value: float) -> str:
    """What else the first step's micro-batches give that was returned."""
    micro = wanted.batches[rank][0]
    share = right.by_count([right.counted(targets) for _, targets in micro])
    _, losses = right.train(wanted.parameters, LR, [[[one]] for one in micro])
    each = [loss for [loss] in losses]
    for whose, other in (
        ("the sum of the micro-batches' mean losses", sum(each)),
        ("the mean of the micro-batches' mean losses", sum(each) / len(each)),
        ("the last micro-batch's mean loss alone", each[-1]),
        ("the last micro-batch's share of this mean alone", share[-1] * each[-1]),
    ):
        if np.isclose(value, other, rtol=1e-5):
            return f" You returned {whose}. Multiply each mean loss by its share of the targets that count, and add them up."
    return ""


EXERCISE = Exercise(
    name="gradient_accumulation",
    chapter="07",
    title="Gradient accumulation: many micro-batches, one synchronization",
    minutes=30,
    difficulty=2,
    world=Ranks(
        (Function("train_step", ("model", "optimizer", "micro_batches", "loss_fn")),),
        cases,
        limits=checks.TRAINING,
        imported=("torch._dynamo",),
    ),
    checks=(
        Check("even", "Micro-batches of one size: the step of the whole batch", 4, _trained("even")),
        Check("uneven", "Different sizes, and targets that do not count", 4, _trained("uneven", "rare")),
        Check("incomplete", "A last group with fewer micro-batches", 2, _trained("incomplete")),
        Check("synchronisations", "One all-reduce of the gradients a step", 4, _synchronisations),
        Check("loss", "The mean loss, as a float", 2, _losses),
        Check("real", "On 2 real processes", 2, _trained("real")),
    ),
)
