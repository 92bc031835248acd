"""What is trained for fsdp, and what must come of it: the module, its gradients and its training in NumPy.

Gradients by hand, unit by unit (Rumelhart, Hinton, Williams 1986); SGD with momentum as torch documents it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Values = dict[str, Array]
Unit = tuple[Any, ...]  # its kind and its sizes: ("linear", 7, 13)

NOT_SAVED = "shift"  # a buffer that is not persistent
EVALUATED = 2  # forward passes that buffers count, before the last whole state
BUFFERS = ("scale", NOT_SAVED, "version", "offset")


@dataclass(frozen=True)
class Job:
    """What is trained, and on what: `x[rank]` and `y[rank]` are steps x batch x features.

    With `skips` it is a module of its own, whose forward pass leads around the units, else an nn.Sequential. `watched`
    says that the memory of every tensor is looked at. Just before the forward pass of step `dropped` there is another
    one, which no backward pass follows.
    """

    units: tuple[Unit, ...]
    values: Values
    x: tuple[Array, ...]
    y: tuple[Array, ...]
    skips: bool = False
    watched: bool = False
    lr: float = 0.03
    momentum: float = 0.8
    dropped: int = -1

    @property
    def ranks(self) -> int:
        return len(self.x)

    @property
    def steps(self) -> int:
        return len(self.x[0])

    @property
    def double(self) -> bool:
        """Whether the parameters are float64."""
        return bool(next(iter(self.values.values())).dtype == np.float64)

    @property
    def names(self) -> list[list[str]]:
        """Of each unit: its parameters."""
        prefixes = [place + "." for place in places(len(self.units), self.skips)]
        trained = [name for name in self.values if is_parameter(name)]
        return [[name for name in trained if name.startswith(prefix)] for prefix in prefixes]

    @property
    def unit_bytes(self) -> list[int]:
        """Of each unit's parameters, whole."""
        return [sum(self.values[name].nbytes for name in unit) for unit in self.names]

    @property
    def bytes(self) -> int:
        return sum(self.unit_bytes)

    @property
    def most_bytes(self) -> int:
        """What may live on a rank at once: its shard and two units."""
        return self.bytes // self.ranks + 2 * max(self.unit_bytes)

    @property
    def allowed_bytes(self) -> int:
        """And what two gathers under way have taken in."""
        return self.most_bytes + 2 * max(self.unit_bytes) // self.ranks

    def told(self) -> dict[str, Any]:
        """What the harness is told."""
        return {
            "units": [list(unit) for unit in self.units], "names": self.names, "skips": self.skips,
            "double": self.double,
            "allowed": self.allowed_bytes if self.watched else 0, "lr": self.lr, "momentum": self.momentum,
            "evaluated": EVALUATED, "dropped": self.dropped,
        }  # fmt: skip


def is_parameter(name: str) -> bool:
    return name.rpartition(".")[2] not in BUFFERS


def is_count(name: str) -> bool:
    """Whether it is a buffer that counts forward passes."""
    return name.rpartition(".")[2] == "version"


def places(count: int, skips: bool) -> list[str]:
    """The names of the module's children."""
    return ["stem", *(f"middle{n}" for n in range(count - 2)), "head"] if skips else [str(n) for n in range(count)]


def shapes(unit: Unit) -> dict[str, tuple[int, ...]]:
    """What a unit has: its parameters and buffers."""
    match unit:
        case ("linear", before, after):
            return {"weight": (after, before), "bias": (after,)}
        case ("block", features, hidden):
            up = {"up.weight": (hidden, features), "up.bias": (hidden,)}
            return up | {"down.weight": (features, hidden), "scale": (features,), "shift": (features,)}
        case ("turned", features, hidden):
            up = {"up.weight": (hidden, features), "up.bias": (hidden,)}
            return {"down.weight": (features, hidden)} | up | {"scale": (features,), "shift": (features,)}
        case ("gain", features):
            return {"gain": (features,), "version": ()}
    return {}


def fresh(
    generator: np.random.Generator, units: tuple[Unit, ...], skips: bool, offset: int, dtype: str = "float32"
) -> Values:
    """Fresh values for parameters and buffers; with a buffer of the module itself, of so many elements."""
    made: Values = {}
    for place, unit in zip(places(len(units), skips), units, strict=True):
        for name, shape in shapes(unit).items():
            if is_count(name):
                made[f"{place}.{name}"] = np.asarray(generator.integers(1, 1000))
                continue
            spread = 0.8 / np.sqrt(shape[1]) if len(shape) == 2 else 0.2
            middle = 1.0 if name in ("gain", "scale") else 0.0
            made[f"{place}.{name}"] = np.asarray(generator.normal(middle, spread, shape), dtype)
    if offset:
        made["offset"] = np.asarray(generator.normal(0, 0.3, offset), dtype)
    return made


# ---- one process


Back = Callable[[Array], tuple[Array, Values]]  # from the gradient of the outputs: that of the inputs, and parameters'


def _forward(unit: Unit, values: Values, place: str, x: Array) -> tuple[Array, Back]:
    """A unit's outputs, and how its gradients follow from theirs."""

    def value(name: str) -> Array:
        return values[f"{place}.{name}"]

    def named(found: Values) -> Values:
        return {f"{place}.{name}": gradient for name, gradient in found.items()}

    if unit[0] == "linear":
        out = x @ value("weight").T + value("bias")
        return out, lambda g: (g @ value("weight"), named({"weight": g.T @ x, "bias": g.sum(0)}))
    if unit[0] == "gain":
        return x * value("gain"), lambda g: (g * value("gain"), named({"gain": (g * x).sum(0)}))
    if unit[0] == "tanh":
        out = np.tanh(x)
        return out, lambda g: (g * (1 - out * out), {})
    inner = np.tanh(x @ value("up.weight").T + value("up.bias"))

    def back(g: Array) -> tuple[Array, Values]:
        scaled = g * value("scale")
        d_up = (scaled @ value("down.weight")) * (1 - inner * inner)
        found = {"up.weight": d_up.T @ x, "up.bias": d_up.sum(0), "down.weight": scaled.T @ inner}
        return g + d_up @ value("up.weight"), named(found)

    return x + value("scale") * (inner @ value("down.weight").T) + value("shift"), back


def gradients(job: Job, values: Values, x: Array, y: Array) -> tuple[Array, Values]:
    """The outputs of one rank's batch, and its own gradients of the squared error, the mean over the batch."""
    backs: list[Back] = []
    h = x
    last = len(job.units) - 1
    for number, (place, unit) in enumerate(zip(places(len(job.units), job.skips), job.units, strict=True)):
        out, back = _forward(unit, values, place, h)
        h = (h + out) / 2 if _around(job, number, last) else out
        backs.append(back)
    out = h + values["offset"] if job.skips else h
    found: Values = {}
    g = 2 * (out - y) / len(x)
    for number in range(last, -1, -1):
        around = _around(job, number, last)
        through, own = backs[number](g / 2 if around else g)
        g = g / 2 + through if around else through
        found |= own
    return out, found


def _around(job: Job, number: int, last: int) -> bool:
    return job.skips and 0 < number < last


@dataclass(frozen=True)
class Trained:
    """Every rank's outputs, [rank][step, batch, feature], and all values before the first step and after each."""

    outputs: list[Array]
    values: list[Values]


Gradient = Callable[[int, list[Values]], list[Values]]  # from a step and the ranks' own gradients: what each steps with


def mean(_: int, own: list[Values]) -> list[Values]:
    return [{name: np.asarray(sum(mine[name] for mine in own) / len(own)) for name in own[0]}] * len(own)


def trained(job: Job, gradient: Gradient = mean, behind: int = 0) -> Trained:
    """One process on the union of the ranks' batches; or ranks that make a mistake, each with parameters of its own.

    `gradient` says what each steps with, `behind` how many steps old the parameters are that the forward pass sees.
    """
    ranks = range(job.ranks)
    start = {name: value.astype(np.float64) for name, value in job.values.items()}
    values, speeds = [dict(start) for _ in ranks], [dict.fromkeys(start, np.zeros(())) for _ in ranks]
    history = [[dict(start)] for _ in ranks]
    outputs: list[list[Array]] = [[] for _ in ranks]
    for step in range(job.steps):
        own = []
        for rank in ranks:
            seen = history[rank][max(0, step - behind)]
            x, y = (row[rank][step].astype(np.float64) for row in (job.x, job.y))
            out, found = gradients(job, seen, x, y)
            outputs[rank].append(out)
            own.append(found)
        for rank, used in enumerate(gradient(step, own)):
            for name, value in used.items():
                speeds[rank][name] = job.momentum * speeds[rank][name] + value
                values[rank][name] = values[rank][name] - job.lr * speeds[rank][name]
            history[rank].append(dict(values[rank]))
    return Trained([np.stack(rows) for rows in outputs], history[0])


def _shards_of(job: Job, own: list[Values]) -> Values:
    """Of each unit's row, cut into N shards, every rank's own gradient in its shard."""
    found: Values = {}
    for unit in filter(None, job.names):
        rows = np.stack([np.concatenate([mine[name].ravel() for name in unit]) for mine in own])
        size = -(-rows.shape[1] // len(own))
        row = np.concatenate([mine[rank * size : (rank + 1) * size] for rank, mine in enumerate(rows)])
        for name in unit:
            shape = job.values[name].shape
            part, row = np.split(row, [int(np.prod(shape))])
            found[name] = part.reshape(shape)
    return found


def mistakes(job: Job) -> Iterator[tuple[list[Array], str]]:
    """What the outputs would be by each of the usual mistakes, and the sentence that names it."""
    n = job.ranks

    def times(factor: float) -> Gradient:
        return lambda step, own: [{k: factor * v for k, v in mine.items()} for mine in mean(step, own)]

    if job.skips:
        other = dict(zip(places(len(job.units), True), places(len(job.units), False), strict=True))
        parts = [(name.partition("."), value) for name, value in job.values.items()]
        plain = {f"{other[place]}.{name}": value for (place, _, name), value in parts if place in other}
        told = "The module's children were called one after another. Call the module, which has a forward() of its own."
        yield trained(replace(job, values=plain, skips=False)).outputs, told
    if n > 1:
        told = "These are the outputs of training with the SUM of the ranks' gradients. Divide by the number of ranks."
        yield trained(job, times(n)).outputs, told
        told = "The mean of the gradients was divided by the number of ranks again. Divide only once."
        yield trained(job, times(1 / n)).outputs, told
        told = "Every rank trains with its own gradients alone. Reduce-scatter the gradients."
        yield trained(job, lambda _, own: own).outputs, told
        told = "Each shard was updated with its own rank's gradient alone. Reduce-scatter the gradients."
        yield trained(job, lambda _, own: [_shards_of(job, own)] * n).outputs, told
    yield (
        trained(replace(job, lr=0.0)).outputs,
        "The module's parameters never change. Gather the shards anew for each forward pass, as the optimizer left "
        "them, and set their .grad in finish_gradient_sync().",
    )
    told = "The forward pass sees the parameters of the step before. Gather the shards anew after each step."
    yield trained(job, behind=1).outputs, told
    gathered: list[Values] = []

    def accumulated(step: int, own: list[Values]) -> list[Values]:
        if not step:
            gathered.clear()
        gathered.append(mean(step, own)[0])
        return [{name: np.asarray(sum(one[name] for one in gathered)) for name in own[0]}] * len(own)

    told = "The gradients were accumulated over the steps. Leave none in the module after finish_gradient_sync()."
    yield trained(job, accumulated).outputs, told
