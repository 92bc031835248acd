"""ZeroOptimizer(params, optimizer_class, stage, **kwargs): each rank keeps the state of its share of the parameters.

ZeRO (Rajbhandari, Rasley, Ruwase, He 2020, sections 5 and 7): stage 1 shards the optimizer's state, stage 2 the
gradients too, by a reduce-scatter in place of the all-reduce; then the new parameters are gathered.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.zero_optimizer import judging
from grader.exercises.zero_optimizer.judging import values
from grader.exercises.zero_optimizer.training import Given, Group, Plan
from grader.ranks.program import Function, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

ODD = ((7, 5), (11,), (4,), (13, 2), (1,))  # 77 elements: no number of ranks that is used here divides them
LAYERS = ((16, 16), (16,)) * 12  # can be shared out whole, too
SMALL = ((8,),) * 16  # a shard of 32 elements on 4 ranks, which shards of larger units do not fit
ADAMW = {"lr": 0.05, "weight_decay": 0.1}
ADAM = {"lr": 0.02, "weight_decay": 0.05}
SGD = {"lr": 0.05, "momentum": 0.9}


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check; values are judged in all of them. `budget1` and `budget2` are for what is counted.

    Stage 2 is SGD's only in its own check: to Adam, gradients that are summed and not averaged are all the same.
    """
    for n in (1, 2, 3, 4):
        yield _case(draw, "same", n, "AdamW", ADAMW, 1, ODD, discarded=2)
    yield _case(draw, "same", 3, "SGD", SGD, 1, ODD, discarded=2)
    yield _case(draw, "same", 2, "Adam", ADAM, 1, ODD, discarded=2)
    for n, optimizer, stage in ((2, "SGD", 1), (3, "AdamW", 1), (3, "AdamW", 2)):
        yield _groups(draw, n, optimizer, stage)
    skipped = ((2, 1), (3, 1), (4, 3), (4, 0), (7, 3))
    for n, optimizer, stage in ((2, "AdamW", 1), (3, "SGD", 1), (2, "AdamW", 2)):
        options = ADAMW if optimizer == "AdamW" else SGD | {"weight_decay": 0.1}
        yield _case(draw, "skipped", n, optimizer, options, stage, ODD, skipped=skipped, zeroed=((5, 0),))
    for n in (2, 3, 4):
        yield _case(draw, "stage2", n, "SGD", SGD, 2, ODD)
    halves = (Group(tuple(range(0, 24, 2)), {}), Group(tuple(range(1, 24, 2)), {}))  # weights, and biases
    yield _case(draw, "budget1", 2, "AdamW", ADAMW, 1, LAYERS, halves, steps=3)
    yield _case(draw, "budget1", 4, "AdamW", ADAMW, 1, LAYERS, steps=3)
    yield _case(draw, "budget1", 4, "AdamW", ADAMW, 1, SMALL, steps=2)
    yield _case(draw, "budget2", 3, "AdamW", ADAMW, 2, LAYERS, halves, steps=3)
    yield _case(draw, "budget2", 4, "AdamW", ADAMW, 2, LAYERS, steps=3)
    yield _case(draw, "real", 2, "AdamW", ADAMW, 1, ODD, steps=5, engine="gloo")
    yield _case(draw, "real", 2, "AdamW", ADAMW, 2, LAYERS, steps=3, engine="gloo")


def _case(
    draw: Draw, group: str, ranks: int, optimizer: str, options: dict[str, float], stage: int,
    shapes: tuple[tuple[int, ...], ...], groups: tuple[Group, ...] = (), engine: str = "sim",
    zeroed: tuple[tuple[int, int], ...] = (), **more: Any,
) -> Case:  # fmt: skip
    """One training. In stage 1 all ranks have the mean gradient, in stage 2 each its own.

    `zeroed` are (step, parameter) with a gradient that is there and zero on every rank, as behind a dead ReLU.
    """
    groups = groups or (Group(tuple(range(len(shapes))), {}),)
    plan = Plan(optimizer, options, stage, shapes, groups, **more)
    label = f"{optimizer}, stage {stage}, on {ranks} rank{'s' * (ranks > 1)}"
    generator = draw.generator(f"{group} {label} {engine}")
    start = generator.uniform(-2, 2, sum(plan.sizes)).astype(np.float32)
    gradients = _gradients(generator, ranks, plan.steps, len(start))
    for step, index in zeroed:
        gradients[:, step, plan.slices[index]] = 0
    if stage == 1:
        gradients = np.broadcast_to(gradients.mean(0, dtype=np.float32), gradients.shape)
    given = Given(plan, start, gradients.astype(np.float64))
    arguments = tuple((plan.told(), Strided.of(start), Strided.of(gradients[rank])) for rank in range(ranks))
    return Case(group, label, arguments, engine=engine, by="train", expected=given)


def _gradients(generator: np.random.Generator, ranks: int, steps: int, count: int) -> np.ndarray[Any, Any]:
    """Each rank's own. No mean is near zero, where Adam would make a step of full size out of a rounding error."""
    mean = generator.uniform(0.25, 2, (steps, count)) * generator.choice((-1, 1), (steps, count))
    apart = generator.uniform(-2, 2, (ranks, steps, count))
    return np.asarray((mean + apart - apart.mean(0)).astype(np.float32))


def _groups(draw: Draw, ranks: int, optimizer: str, stage: int) -> Case:
    """Two groups with options of their own, a third added, and options that are changed: lr in two, another in one."""
    own = {"lr": 0.2, "weight_decay": 0.0} if optimizer == "AdamW" else {"lr": 0.2, "momentum": 0.5}
    groups = Group((0, 2, 3), {}), Group((1,), own)
    added = Group((4,), {"lr": 0.01}, before=3)  # one element: the shards of the other ranks are empty
    options = ADAMW if optimizer == "AdamW" else SGD
    other = (8, 0, "weight_decay", 0.5) if optimizer == "AdamW" else (8, 0, "momentum", 0.3)
    changes = (5, 0, "lr", 0.15), (6, 2, "lr", 0.1), other
    return _case(draw, "groups", ranks, optimizer, options, stage, ODD, groups, added=added, changes=changes)


_right = partial(checks.right, values)


EXERCISE = Exercise(
    name="zero_optimizer",
    chapter="09",
    title="ZeRO: a sharded optimizer",
    minutes=60,
    difficulty=3,
    cost="seconds",
    world=Ranks(
        (Function("ZeroOptimizer", ("params", "optimizer_class")),),
        cases,
        limits=checks.TRAINING,
        banned=("torch.distributed.optim.ZeroRedundancyOptimizer",),
        imported=("torch._dynamo", "torch.distributed.optim"),
    ),
    checks=(
        Check("same", "Ten steps as the unsharded optimizer makes them, on 1 to 4 ranks", 4, _right("same")),
        Check("groups", "Parameter groups with an lr of their own, changed later, and one added", 3, _right("groups")),
        Check("skipped", "A parameter whose gradient is None is left alone", 2, _right("skipped")),
        Check("state", "Optimizer state per rank at most 1.1/N of all", 4, judging.state),
        Check("collectives", "At most two collectives a parameter group and step", 2, judging.collectives),
        Check("stage2", "Stage 2 averages the ranks' own gradients", 3, _right("stage2")),
        Check("bytes", "Stage 2 sends a reduce-scatter's and an all-gather's bytes", 2, judging.sent),
        Check("freed", "Stage 2 frees the gradients in step()", 2, judging.freed),
        Check("real", "On two real processes", 2, _right("real")),
    ),
)
