"""FullyShardedModel(module): parameters, gradients and optimizer state sharded over the ranks, unit by unit.

Stage 3 of ZeRO (Rajbhandari, Rasley, Ruwase, He 2020, sections 5.3 and 7.2.2), as PyTorch has it in Fully Sharded Data
Parallel (Zhao et al. 2023, sections 3.1, 3.2 and 4.2): gather a unit before its forward pass and before its backward
pass, free it after each, reduce-scatter its gradients. Together 1.5 times the bytes of plain data parallelism.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.fsdp import judging, training
from grader.exercises.fsdp.judging import values
from grader.exercises.fsdp.training import Job, Unit
from grader.ranks.program import Function, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

BATCH = 4  # of each rank
TANH: Unit = ("tanh",)
# No number of ranks that is used here divides its units' elements, and the last unit has fewer than there are ranks.
ODD: tuple[Unit, ...] = (
    ("linear", 7, 13), TANH, ("block", 13, 5), ("gain", 13), TANH, ("linear", 13, 3), ("gain", 3)
)  # fmt: skip
SKIPS: tuple[Unit, ...] = (
    ("linear", 12, 12), ("turned", 12, 24), TANH, ("linear", 12, 12), ("gain", 12), ("linear", 12, 12)
)  # fmt: skip
UNLIKE: tuple[Unit, ...] = (("linear", 8, 96), TANH, ("linear", 96, 24), TANH, ("linear", 24, 12), ("linear", 12, 12))
ALIKE: tuple[Unit, ...] = (("linear", 24, 24), TANH) * 5 + (("linear", 24, 24),)
BLOCKS: tuple[Unit, ...] = (("block", 24, 24), TANH) * 2 + (("linear", 24, 24),)


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check; outputs are judged in all of them.

    Where memory or bytes are counted all sizes can be divided by the number of ranks, in whatever way they are cut.
    """
    for n in (1, 2, 3, 4):
        yield _case(draw, "trains", n, ODD, steps=5, dropped=2 if n == 2 else -1)
    yield _case(draw, "skips", 2, SKIPS, skips=True)
    yield _case(draw, "skips", 3, SKIPS, skips=True, dtype="float64")
    yield _case(draw, "skips", 4, SKIPS, skips=True)
    for n in (2, 4):
        yield _case(draw, "shards", n, UNLIKE, steps=2)
    for n in (3, 4):
        yield _case(draw, "peak", n, ALIKE, steps=2, watched=True, lr=0.0)
    for n, units in ((2, ALIKE), (4, ALIKE), (4, BLOCKS)):
        yield _case(draw, "budget", n, units)
    for n in (2, 3):
        yield _case(draw, "state_dict", n, ODD, by="save", offset=5)
    yield _case(draw, "state_dict", 4, ALIKE, steps=2, by="state_and_on", watched=True, lr=0.0)
    yield _case(draw, "real", 2, ODD, steps=4, engine="gloo")


def _case(
    draw: Draw, group: str, ranks: int, units: tuple[Unit, ...], *, steps: int = 3, skips: bool = False,
    dtype: str = "float32", offset: int = 0, by: str = "train", engine: str = "sim", **more: Any,
) -> Case:  # fmt: skip
    """One training; every rank begins with the same parameters and has batches of its own."""
    kinds = "its own forward pass" if skips else "nn.Sequential"
    label = f"{kinds} of {len(units)} units in {dtype} on {ranks} rank{'s' * (ranks > 1)}"
    generator = draw.generator(f"{group} {label} {engine}")
    features, wanted = units[0][1], units[-1][-1]
    given = training.fresh(generator, units, skips, wanted if skips else offset, dtype)
    x = tuple(np.asarray(generator.normal(0, 1, (steps, BATCH, features)), dtype) for _ in range(ranks))
    y = tuple(np.asarray(generator.normal(0, 1, (steps, BATCH, wanted)), dtype) for _ in range(ranks))
    job = Job(units, given, x, y, skips=skips, **more)
    told = {name: Strided.of(value) for name, value in given.items()}
    arguments = tuple((job.told(), told, Strided.of(x[rank]), Strided.of(y[rank])) for rank in range(ranks))
    simulated = job.watched or group == "budget"
    return Case(group, label, arguments, engine=engine, by=by, expected=job, simulated=simulated)


EXERCISE = Exercise(
    name="fsdp",
    chapter="09",
    title="Fully sharded data parallel",
    minutes=90,
    difficulty=3,
    cost="seconds",
    world=Ranks(
        (Function("FullyShardedModel"),),
        cases,
        limits=checks.TRAINING,
        banned=("torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard"),
        imported=("torch._dynamo", "torch.distributed.fsdp"),
    ),
    checks=(
        Check("trains", "Trains as one process on all batches, on 1 to 4 ranks", 5, checks.right(values, "trains")),
        Check("skips", "A module with a forward pass of its own, also in float64", 3, checks.right(values, "skips")),
        Check("shards", "A rank's parameters() are 1/N of all, cut evenly", 2, judging.shards),
        Check("peak", "Never more parameters on a rank than its shard and two units", 5, judging.peak),
        Check("bytes", "At most 1.55 times the bytes of DDP in each step", 3, judging.sent),
        Check("state_dict", "full_state_dict() is the unwrapped module's, on every rank", 3, judging.state),
        Check("real", "On two real processes", 2, checks.right(values, "real")),
    ),
)
