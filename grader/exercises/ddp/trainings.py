"""The cases of ddp: what is trained on which ranks, and the marks that the harness leaves in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grader import says
from grader.exercise import Draw
from grader.exercises.ddp import training
from grader.exercises.ddp.training import Job
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Strided
from grader.worlds.cases import Case

LINK = Network(alpha=10e-6, beta=1e-9)  # 10 us and 1 GB/s
MARKS = (1e-6, 2e-6, 3e-6)  # how long the harness computes to say: a step begins, its backward pass is over, it ends
LAYER = 200e-6  # seconds that the backward pass of a layer takes, where time is looked at
SMALL = 2500  # bytes of a bucket, less than a large layer's
HIDDEN = (24, 40, 32, 16)
ALL = (0, 1, 2, 3)
FROZEN = ("layers.1.up", "layers.1.down")
TIED = {"layers.3.down": "layers.0.down"}


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check; `budget` serves the three that look at messages."""
    for n in (2, 3, 4):
        yield _construction(draw, n)
    yield _case(draw, "gradients", "nobody to talk to", (ALL,), bucket=SMALL)
    yield _case(draw, "gradients", "float64", (ALL,) * 2, bucket=SMALL, dtype="float64")
    yield _case(draw, "gradients", "buckets of 1 byte", (ALL,) * 2, bucket=1)
    yield _case(draw, "gradients", "tied weights", (ALL,) * 3, bucket=SMALL, hidden=(24, 40, 32, 24), tied=TIED)
    yield _case(draw, "gradients", "a frozen layer", (ALL,) * 3, bucket=SMALL, frozen=FROZEN)
    yield _case(draw, "gradients", "the bucket_bytes that is the default", (ALL,) * 4)
    for bucket in (SMALL, None):
        yield _case(draw, "uneven", "a layer that rank 0 alone uses", (ALL, (0, 2, 3)), bucket)
        yield _case(draw, "uneven", "a layer that no rank uses", ((0, 1, 3),) * 3, bucket)
    yield _case(draw, "uneven", "a layer that rank 1 does not use", (ALL, (0, 2, 3), ALL), SMALL)
    yield _case(draw, "uneven", "a depth of its own on each rank", ((0,), (0, 1), (0, 1, 2), ALL), SMALL)
    yield _case(draw, "uneven", "layers in another order on rank 1", (ALL, (3, 2, 1, 0)), SMALL)
    one = "a layer that rank 0 alone uses, in float64"  # layer 1 fills a bucket of its own: rank 1 has none of it
    yield _case(draw, "uneven_float64", one, (ALL, (0, 2, 3)), SMALL, dtype="float64")
    label, earlier = "3 micro-batches, and layers that only the first two use", (ALL, (0, 2, 3))
    yield _case(draw, "left_out", label, ((0, 3),) * 2, SMALL, steps=3, earlier=earlier)
    for n in (2, 3):
        yield _case(draw, "training", "SGD with momentum", (ALL,) * n, bucket=SMALL, steps=4)
    yield _case(draw, "no_sync", "3 micro-batches", (ALL,) * 2, bucket=SMALL, steps=3)
    label = "3 micro-batches, the first in a no_sync() inside no_sync()"
    yield _case(draw, "no_sync", label, (ALL,) * 3, bucket=SMALL, steps=3, nested=True)
    frozen = ("layers.2.up", "layers.2.down")
    yield _budget(draw, 4, "buckets of 36 KiB", 36 * 2**10, frozen=frozen)
    yield _budget(draw, 3, "the bucket_bytes that is the default", None, frozen=frozen)
    tied = {"layers.3.down": "layers.1.down"}  # 16 KiB a weight: two and a bias are more than 30 KiB
    yield _budget(draw, 4, "tied weights, buckets of 30 KiB", 30 * 2**10, tied=tied)
    yield _case(draw, "reality", "real processes", (ALL,) * 3, bucket=SMALL, engine="gloo")


def _budget(draw: Draw, n: int, label: str, bucket: int | None, **options: Any) -> Case:
    """Two steps of five layers that take time."""
    plans = ((0, 1, 2, 3, 4),) * n
    return _case(draw, "budget", label, plans, bucket, hidden=(64,) * 5, features=64, steps=2, **options)


def _case(
    draw: Draw, group: str, what: str, plans: tuple[tuple[int, ...], ...], bucket: int | None = None, *,
    hidden: tuple[int, ...] = HIDDEN, features: int = 16, tied: dict[str, str] | None = None,
    frozen: tuple[str, ...] = (), steps: int = 1, dtype: str = "float32", engine: str = "sim",
    earlier: tuple[tuple[int, ...], ...] = (), nested: bool = False,
) -> Case:  # fmt: skip
    """One training or accumulation; every rank has the same parameters and data of its own."""
    n, tied = len(plans), tied or {}
    label = f"{says.counted(n, 'rank')}, {what}" + (f", buckets of {bucket} bytes" if bucket == SMALL else "")
    values = training.fresh(draw.generator(f"{group} {label}"), features, hidden, tied, dtype)
    shape = (steps, 4, features)
    data = [draw.generator(f"{group} {label}/{rank}").normal(0, 1, (2, *shape)).astype(dtype) for rank in range(n)]
    x, y = tuple(x for x, _ in data), tuple(y for _, y in data)
    job = Job(hidden, plans, values, x, y, tied, frozen, bucket, 0.5, 0.9, earlier, nested)
    timed = group in ("budget", "no_sync")
    arguments = tuple(
        (_spec(job, rank, timed), _sent(values), Strided.of(job.x[rank]), Strided.of(job.y[rank])) for rank in range(n)
    )
    by = "accumulate" if group == "no_sync" or earlier else "train"
    network = LINK if timed else ROUNDS
    return Case(group, label, arguments, by=by, engine=engine, network=network, expected=job)


def _construction(draw: Draw, n: int) -> Case:
    """A model is built around a module that is another on each rank."""
    label = f"{says.counted(n, 'rank')}, other values on each"
    hidden, tied = (24, 40, 24), {"layers.2.down": "layers.0.down"}
    generators = [draw.generator(f"{label}/{rank}") for rank in range(n)]
    values = [training.fresh(generator, 16, hidden, tied, "float32") for generator in generators]
    for mine, generator in zip(values, generators, strict=True):
        mine["shift"] = generator.normal(0, 1, 16).astype("float32")  # a buffer with persistent=False
    job = Job(hidden, (ALL,) * n, values[0], (), (), tied, FROZEN, SMALL)
    arguments = tuple((_spec(job, rank, False), _sent(values[rank])) for rank in range(n))
    return Case("broadcast", label, arguments, by="construct", expected=values)


def _spec(job: Job, rank: int, timed: bool) -> dict[str, Any]:
    """What the harness is told."""
    return {
        "hidden": list(job.hidden), "plan": list(job.plans[rank]),
        "earlier": list(job.earlier[rank] if job.earlier else job.plans[rank]),
        "tied": dict(job.tied), "frozen": list(job.frozen),
        "bucket_bytes": job.bucket_bytes, "lr": job.lr, "momentum": job.momentum, "nested": job.nested,
        "seconds": LAYER if timed else 0.0, "marks": list(MARKS if timed else (0.0, 0.0, 0.0)),
    }  # fmt: skip


def _sent(values: training.Values) -> dict[str, Strided]:
    return {name: Strided.of(value) for name, value in values.items()}
