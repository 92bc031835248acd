"""The cases of ddp: the network that its ranks train, and its gradients and its training in NumPy, as one process does it.

Gradients by hand, layer by layer (Rumelhart, Hinton, Williams 1986); SGD with momentum as torch documents it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from grader import says
from grader.exercise import Draw
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Strided
from grader.worlds.cases import Case

Array = np.ndarray[Any, Any]
Values = dict[str, Array]


@dataclass(frozen=True)
class Job:
    """What is trained, and on what: `x[rank]` and `y[rank]` are steps x batch x features.

    `plans[rank]` are the layers that the rank applies, in order. `tied` names a layer's linear map by the one whose
    weight it shares; `frozen` are linear maps that are not trained. Where there is `earlier`, those are the plans of
    all batches but the last, of one step or of several. `nested` opens a second no_sync() inside the first, around the
    first batch. Where `lr` is 0, every step begins with `values`, whatever was done to the parameters. `scales`
    are what each rank writes into its buffer after construction. Where it is `hooked`, a forward hook of the module
    multiplies what it returns by HOOK.
    """

    hidden: tuple[int, ...]
    plans: tuple[tuple[int, ...], ...]
    values: Values
    x: tuple[Array, ...]
    y: tuple[Array, ...]
    tied: Mapping[str, str] = field(default_factory=dict)
    frozen: tuple[str, ...] = ()
    bucket_bytes: int | None = None
    lr: float = 0.0
    momentum: float = 0.0
    earlier: tuple[tuple[int, ...], ...] = ()
    nested: bool = False
    scales: tuple[Array, ...] = ()
    hooked: bool = False

    @property
    def ranks(self) -> int:
        return len(self.plans)

    @property
    def trained(self) -> list[str]:
        """The parameters that get gradients, each once."""
        return [name for name in self.values if name != "scale" and not self.is_frozen(name)]

    def is_frozen(self, name: str) -> bool:
        return name.rpartition(".")[0] in self.frozen

    @property
    def gradient_bytes(self) -> int:
        return sum(self.values[name].nbytes for name in self.trained)

    def plan(self, rank: int, batch: int) -> tuple[int, ...]:
        """The layers that the rank applies to a batch."""
        return self.earlier[rank] if self.earlier and batch < len(self.x[rank]) - 1 else self.plans[rank]


def names(hidden: Sequence[int], tied: Mapping[str, str]) -> list[str]:
    """The network's parameters and its buffer, in the module's order."""
    found = ["gain", "scale"]
    for index in range(len(hidden)):
        layer = f"layers.{index}"
        found += [f"{layer}.up.weight", f"{layer}.up.bias", f"{layer}.down.weight"]
    return [name for name in found if name.rpartition(".")[0] not in tied]


def fresh(
    generator: np.random.Generator, features: int, hidden: Sequence[int], tied: Mapping[str, str], dtype: str
) -> Values:
    """Fresh values for the parameters and the buffer."""
    made: Values = {}
    for name in names(hidden, tied):
        size = hidden[int(name.split(".")[1])] if name.startswith("layers") else 0
        shapes = {"up.weight": (size, features), "up.bias": (size,), "down.weight": (features, size)}
        shapes["scale"] = (features,)
        shape = shapes.get(name.split(".", 2)[-1], ())
        spread = 0.6 / np.sqrt(shape[1]) if len(shape) == 2 else 0.2
        middle = 1.0 if name in ("gain", "scale") else 0.0
        made[name] = np.asarray(generator.normal(middle, spread, shape), dtype)
    return made


def gradients(job: Job, values: Values, rank: int, batch: int) -> Values:
    """One rank's own gradients of the mean squared error; of the parameters that it used and trains."""
    x, y = job.x[rank][batch], job.y[rank][batch]
    wide = {name: value.astype(np.float64) for name, value in values.items()}

    def name_of(index: int, part: str) -> str:
        place, _, kind = f"layers.{index}.{part}".rpartition(".")
        return f"{job.tied.get(place, place)}.{kind}"

    h = x.astype(np.float64)
    kept: list[tuple[int, Array, Array]] = []
    for index in job.plan(rank, batch):
        a = np.tanh(h @ wide[name_of(index, "up.weight")].T + wide[name_of(index, "up.bias")])
        kept.append((index, h, a))
        h = h + a @ wide[name_of(index, "down.weight")].T
    gain, scale = wide["gain"], job.scales[rank].astype(np.float64) if job.scales else wide["scale"]
    scale = scale * HOOK if job.hooked else scale
    d_out = 2 * (gain * scale * h - y) / h.size
    found: Values = {"gain": np.asarray((d_out * scale * h).sum())}
    dh = d_out * gain * scale

    def add(name: str, value: Array) -> None:
        found[name] = found[name] + value if name in found else value

    for index, before, a in reversed(kept):
        down, up = name_of(index, "down.weight"), name_of(index, "up.weight")
        add(down, dh.T @ a)
        dz = (dh @ wide[down]) * (1 - a * a)
        add(up, dz.T @ before)
        add(name_of(index, "up.bias"), dz.sum(0))
        dh = dh + dz @ wide[up]
    return {name: value for name, value in found.items() if not job.is_frozen(name)}


@dataclass(frozen=True)
class Step:
    """One step: every rank's own gradients, and their mean, None where no rank has any."""

    own: tuple[Values, ...]
    mean: dict[str, Array | None]

    def users(self, name: str) -> list[int]:
        """The ranks whose forward pass used a parameter."""
        return [rank for rank, own in enumerate(self.own) if name in own]


def step_of(job: Job, values: Values, batches: Sequence[int]) -> Step:
    """The gradients of these batches of `x`, summed up on each rank."""
    own: list[Values] = []
    for rank in range(job.ranks):
        parts = [gradients(job, values, rank, batch) for batch in batches]
        used = {name: None for part in parts for name in part}
        own.append({name: np.asarray(sum(part[name] for part in parts if name in part)) for name in used})
    mean: dict[str, Array | None] = {}
    for name in values:
        having = [mine[name] for mine in own if name in mine]
        mean[name] = np.asarray(sum(having)) / job.ranks if having else None
    del mean["scale"]
    return Step(tuple(own), mean)


def trained(job: Job) -> tuple[list[Step], Values]:
    """Every step of one process on the union of the ranks' batches, and the parameters after the last."""
    values = {name: value.astype(np.float64) for name, value in job.values.items()}
    speed: Values = {}
    steps = []
    for batch in range(len(job.x[0])):
        steps.append(step_of(job, values, [batch]))
        for name, gradient in steps[-1].mean.items():
            if gradient is not None:
                speed[name] = job.momentum * speed[name] + gradient if name in speed else gradient
                values[name] = values[name] - job.lr * speed[name]
    return steps, values


def close(got: Array | None, right: Array, scale: float) -> bool:
    """Equal up to what the type of `got` loses, where values are about `scale`; half precision on the wire is not."""
    if got is None or got.shape != right.shape:
        return False
    lost = 1e-10 if got.dtype == np.float64 else 3e-5
    return bool(np.all(np.abs(got.astype(np.float64) - right) <= lost * scale))  # NaN is not


LINK = Network(alpha=10e-6, beta=1e-9)  # 10 us and 1 GB/s
MARKS = (1e-6, 2e-6, 3e-6)  # how long the harness computes to say: a step begins, its backward pass is over, it ends
LAYER = 200e-6  # seconds that the backward pass of a layer takes, where time is looked at
HOOK = 1.5  # what a forward hook multiplies the module's output by
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
    yield _case(draw, "gradients", "the default bucket_bytes, and a forward hook", (ALL,) * 4, hooked=True)
    yield _case(draw, "gradients", "a buffer that each rank changes", (ALL,) * 2, SMALL, own_scales=True)
    for bucket in (SMALL, None):
        yield _case(draw, "uneven", "a layer that rank 0 alone uses", (ALL, (0, 2, 3)), bucket)
        yield _case(draw, "uneven", "a layer that no rank uses", ((0, 1, 3),) * 3, bucket)
    yield _case(draw, "uneven", "a layer that rank 1 does not use", (ALL, (0, 2, 3), ALL), SMALL)
    yield _case(draw, "uneven", "a depth of its own on each rank", ((0,), (0, 1), (0, 1, 2), ALL), SMALL)
    yield _case(draw, "uneven", "layers in another order on rank 1", (ALL, (3, 2, 1, 0)), SMALL)
    fewer = (0, 1, 3), (0, 3)
    for label, first, last, bucket in (("fewer", (ALL, ALL), fewer, SMALL), ("more", fewer, (ALL, ALL), None)):
        what = f"layers that {label} ranks use in the second step"
        yield _case(draw, "uneven", what, last, bucket, steps=2, earlier=first, by="train", lr=0.0)
    one = "a layer that rank 0 alone uses, in float64"  # layer 1 fills a bucket of its own: rank 1 has none of it
    yield _case(draw, "uneven_float64", one, (ALL, (0, 2, 3)), SMALL, dtype="float64")
    label, earlier = "3 micro-batches, and layers that only the first two use", (ALL, (0, 2, 3))
    yield _case(draw, "left_out", label, ((0, 3),) * 2, SMALL, steps=3, earlier=earlier, by="accumulate")
    for n in (2, 3):
        yield _case(draw, "training", "SGD with momentum", (ALL,) * n, bucket=SMALL, steps=4)
    yield _case(draw, "no_sync", "3 micro-batches", (ALL,) * 2, bucket=SMALL, steps=3, by="accumulate")
    label = "3 micro-batches, the first in a no_sync() inside no_sync()"
    yield _case(draw, "no_sync", label, (ALL,) * 3, bucket=SMALL, steps=3, nested=True, by="accumulate")
    frozen = ("layers.2.up", "layers.2.down")
    yield _budget(draw, 4, "buckets of 36 KiB", 36 * 2**10, frozen=frozen)
    yield _budget(draw, 3, "the default bucket_bytes", None, frozen=frozen)
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
    earlier: tuple[tuple[int, ...], ...] = (), nested: bool = False, by: str = "train",
    lr: float = 0.5, own_scales: bool = False, hooked: bool = False,
) -> Case:  # fmt: skip
    """One training or accumulation; every rank has the same parameters and data of its own."""
    n, tied = len(plans), tied or {}
    label = f"{says.counted(n, 'rank')}, {what}" + (f", buckets of {bucket:,} bytes" if bucket == SMALL else "")
    values = fresh(draw.generator(f"{group} {label}"), features, hidden, tied, dtype)
    shape = (steps, 4, features)
    data = [draw.generator(f"{group} {label}/{rank}").normal(0, 1, (2, *shape)).astype(dtype) for rank in range(n)]
    x, y = tuple(x for x, _ in data), tuple(y for _, y in data)
    scales = tuple(np.asarray((2 + rank) * values["scale"], dtype) for rank in range(n)) if own_scales else ()
    job = Job(hidden, plans, values, x, y, tied, frozen, bucket, lr, 0.9, earlier, nested, scales, hooked)
    sent = [{**values, "own scale": scales[rank]} if scales else values for rank in range(n)]
    timed = group in ("budget", "no_sync")
    arguments = tuple(
        (_spec(job, rank, timed), _sent(sent[rank]), Strided.of(job.x[rank]), Strided.of(job.y[rank]))
        for rank in range(n)
    )
    network = LINK if timed else ROUNDS
    return Case(group, label, arguments, by=by, engine=engine, network=network, expected=job)


def _construction(draw: Draw, n: int) -> Case:
    """A model is built around a module that is another on each rank."""
    label = f"{says.counted(n, 'rank')}, other values on each"
    hidden, tied = (24, 40, 24), {"layers.2.down": "layers.0.down"}
    generators = [draw.generator(f"{label}/{rank}") for rank in range(n)]
    values = [fresh(generator, 16, hidden, tied, "float32") for generator in generators]
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
        "hook": HOOK if job.hooked else 1.0,
        "seconds": LAYER if timed else 0.0, "marks": list(MARKS if timed else (0.0, 0.0, 0.0)),
    }  # fmt: skip


def _sent(values: Values) -> dict[str, Strided]:
    return {name: Strided.of(value) for name, value in values.items()}
