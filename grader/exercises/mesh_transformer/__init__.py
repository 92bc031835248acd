"""parallelize(), train_step(), save() and load(): a transformer on a mesh of data, sharded and tensor parallelism.

Tensor parallelism by Shoeybi et al. 2019 (Megatron-LM, section 3), sharding by Zhao et al. 2023 (PyTorch FSDP), both
together as torch composes them: fully_shard on DTensors. A checkpoint that is saved on one mesh and loaded on another is
what torch.distributed.checkpoint is for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.mesh_transformer import judging, training
from grader.exercises.mesh_transformer.judging import values
from grader.exercises.mesh_transformer.training import Array, Job, Mesh
from grader.ranks.program import Function, Limits, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

VOCABULARY, WIDTH, HEADS, HIDDEN = 40, 32, 4, 64
BATCH, SEQUENCE = 2, 12  # of each data-parallel rank
# DTensor takes much of the processor's time, which on a busy machine is not this exercise's alone.
LIMITS = Limits(cpu_seconds=15, load_cpu_seconds=15, idle_seconds=20, silent_seconds=40, wall_seconds=90)
REPLICAS: Mesh = (("dp_replicate", 2),)
SHARDS: Mesh = (("dp_shard", 4),)
HALVES: Mesh = (("dp_shard", 2),)
TENSOR: Mesh = (("tp", 2),)
HYBRID: Mesh = (("dp_replicate", 2), ("dp_shard", 2))
REPLICATED_TENSOR: Mesh = (("dp_replicate", 2), ("tp", 2))
SHARDED_TENSOR: Mesh = (("dp_shard", 2), ("tp", 2))


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check; the losses are judged in all of them."""
    for group, mesh in (("data", REPLICAS), ("data", SHARDS), ("data", HYBRID), ("tensor", TENSOR),
                        ("composed", REPLICATED_TENSOR), ("composed", SHARDED_TENSOR)):  # fmt: skip
        yield _case(draw, group, mesh, stale=group == "tensor")
    for mesh in (REPLICAS, HYBRID):
        yield _case(draw, "masks", mesh, steps=4, even=False)
    for mesh in (TENSOR, SHARDS, SHARDED_TENSOR, HYBRID):
        yield _case(draw, "sizes", mesh, steps=1, adam=True, lr=0.01, layers=2)
    for mesh, other in ((REPLICAS, HALVES), (SHARDS, SHARDED_TENSOR), (SHARDED_TENSOR, SHARDS)):
        yield _case(draw, "checkpoint", mesh, other, steps=2, adam=True, lr=0.04)
    yield _case(draw, "real", SHARDED_TENSOR, steps=3, layers=2, engine="gloo")


def _case(
    draw: Draw, group: str, mesh: Mesh, other: Mesh = (), *, steps: int = 10, even: bool = True, engine: str = "sim",
    adam: bool = False, lr: float = 0.05, layers: int = 1, stale: bool = False,
) -> Case:  # fmt: skip
    """One training; every rank begins with the same parameters, and every data-parallel rank has tokens of its own."""
    label = judging.named(mesh) + (f", then {judging.named(other)}" if other else "")
    generator = draw.generator(f"{group} {label} {engine}")
    given = training.fresh(generator, VOCABULARY, WIDTH, HIDDEN, layers)
    data = [_data(generator, training.data_ranks(each), steps, even) for each in (mesh, other) if each]
    job = Job(mesh, given, *data[0], HEADS, other, data[1] if other else None, adam=adam, lr=lr, stale=stale)
    told = {name: Strided.of(value) for name, value in given.items()}
    spec = job.told() | {"folder": f"checkpoint {label}"}
    size = training.size(mesh)
    arguments = tuple(
        (spec, told, *(
            Strided.of(np.ascontiguousarray(part[:, training.data_rank(on, rank)]))
            for on, parts in zip((mesh, other), data, strict=False) for part in parts
        ))
        for rank in range(size)
    )  # fmt: skip
    # The harness calls all four. The one that is named is looked for before the call.
    name = {"data": "train_step", "checkpoint": "save" if len(mesh) == 1 else "load"}.get(group, "parallelize")
    by = "resume" if other else "train"
    apart = size == 4 and "tp" in dict(mesh) and not other  # half of what four ranks take
    return Case(group, label, arguments, name, engine, by=by, expected=job, simulated=group == "sizes", part=int(apart))


def _data(generator: np.random.Generator, ranks: int, steps: int, even: bool) -> tuple[Array, Array]:
    """Tokens of which some are frequent, and masks: on every rank equally many, or on each other many, on one none."""
    shape = steps, ranks, BATCH, SEQUENCE
    often = 1 / np.arange(1, VOCABULARY + 1)
    tokens = generator.choice(VOCABULARY, shape, p=often / often.sum())
    masks = np.zeros(shape, bool)
    for step in range(steps):
        for rank in range(ranks):
            counted = (
                14 if even else (0, 3, 19, 10)[(rank + step) % 4] if ranks > 2 else (3, 19, 0, 16)[2 * rank + step % 2]
            )
            chosen = generator.permutation(BATCH * (SEQUENCE - 1))[:counted]
            masks[step, rank, chosen // (SEQUENCE - 1), 1 + chosen % (SEQUENCE - 1)] = True
    return tokens, masks


EXERCISE = Exercise(
    name="mesh_transformer",
    chapter="16",
    title="A transformer on a mesh: data, sharded and tensor parallel at once",
    minutes=90,
    difficulty=3,
    cost="seconds",
    world=Ranks(
        (
            Function("parallelize", ("model", "mesh")),
            Function("train_step", ("model", "optimizer", "tokens", "mask")),
            Function("save", ("model", "optimizer", "folder")),
            Function("load", ("model", "optimizer", "folder")),
        ),
        cases,
        limits=LIMITS,
        imported=(
            "torch._dynamo", "torch.distributed.fsdp", "torch.distributed.tensor.parallel",
            "torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict",
            "torch.distributed.checkpoint._fsspec_filesystem",
        ),
    ),
    checks=(
        Check("data", "Data parallel: replicated, sharded, and both", 4, checks.right(values, "data")),
        Check("tensor", "Tensor parallel, on a mesh without data parallelism", 3, checks.right(values, "tensor")),
        Check("composed", "Tensor parallel with replicas, and with shards", 4, checks.right(values, "composed")),
        Check("masks", "The mean over all counted tokens, also where a rank has none", 3, checks.right(values, "masks")),
        Check("memory", "Parameters and optimizer state cut by dp_shard and tp", 3, judging.memory),
        Check("traffic", "Two all-reduces a layer in each pass, inside tp groups", 3, judging.traffic),
        Check("checkpoint", "Saved on one mesh, loaded on another", 4, judging.checkpoint),
        Check("real", "Sharded and tensor parallel on four real processes", 2, checks.right(values, "real")),
    ),
)  # fmt: skip
