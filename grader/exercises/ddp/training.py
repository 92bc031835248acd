"""The network that ddp's ranks train, its gradients and its training in NumPy: what one process would do.

Gradients by hand, layer by layer (Rumelhart, Hinton, Williams 1986); SGD with momentum as torch documents it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Values = dict[str, Array]


@dataclass(frozen=True)
class Job:
    """What is trained, and on what: `x[rank]` and `y[rank]` are steps x batch x features.

    `plans[rank]` are the layers that the rank applies, in order. `tied` names a layer's linear map by the one whose
    weight it shares; `frozen` are linear maps that are not trained. Where there is `earlier`, those are the plans of
    all batches but the last. `nested` opens a second no_sync() inside the first, around the first batch.
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

    def users(self, name: str) -> list[int]:
        """The ranks whose forward pass uses a parameter."""
        places = [name.rpartition(".")[0]]
        places += [place for place, first in self.tied.items() if first == places[0]]
        layers = {int(place.split(".")[1]) for place in places if place}
        used = [{*plan, *(self.earlier[rank] if self.earlier else ())} for rank, plan in enumerate(self.plans)]
        return [rank for rank in range(self.ranks) if not layers or layers & used[rank]]

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
    gain, scale = wide["gain"], wide["scale"]
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
