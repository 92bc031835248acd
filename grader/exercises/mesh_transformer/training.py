"""What is trained for mesh_transformer, and what one process comes to: the transformer and its training in NumPy, float64.

The model is GPT's (Radford et al. 2019) without positions: norms before attention and MLP, causal attention (Vaswani et al.
2017, section 3.2.1). Optimizers as torch documents them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grader import says

Array = np.ndarray[Any, Any]
Values = dict[str, Array]
Mesh = tuple[tuple[str, int], ...]  # the dimensions that it has, in order
EPS = 1e-5  # of torch's LayerNorm
FIRST_SAVE = 1  # steps before the first of two saves into one folder


@dataclass(frozen=True)
class Job:
    """What is trained, and on what: `tokens` and `masks` are steps x data-parallel ranks x batch x sequence.

    With `other` the model is saved after the first of `tokens` and again after the last, and loaded on that mesh into
    another one, which trains on `later`. `stale`: every parameter has a gradient of ones before the first step.
    """

    mesh: Mesh
    values: Values
    tokens: Array
    masks: Array
    heads: int
    other: Mesh = ()
    later: tuple[Array, Array] | None = None
    adam: bool = False
    lr: float = 0.05
    momentum: float = 0.9
    eps: float = 1e-5
    decay: float = 0.1
    stale: bool = False

    @property
    def layers(self) -> int:
        return sum(name.endswith("attention.q.weight") for name in self.values)

    @property
    def steps(self) -> int:
        return len(self.tokens) + (0 if self.later is None else len(self.later[0]))

    @property
    def activation(self) -> int:
        """Bytes of one tensor (batch, sequence, width) in float32."""
        return int(np.prod(self.tokens.shape[2:])) * self.values["norm.weight"].size * 4

    def told(self) -> dict[str, Any]:
        """What the harness is told."""
        vocabulary, width = self.values["embed.weight"].shape
        return {
            "vocabulary": vocabulary, "width": width, "heads": self.heads, "layers": self.layers,
            "hidden": len(self.values["layers.0.mlp.up.weight"]), "mesh": dict(self.mesh), "other": dict(self.other),
            "adam": self.adam, "lr": self.lr, "momentum": self.momentum, "eps": self.eps, "decay": self.decay,
            "stale": self.stale, "first_save": FIRST_SAVE,
        }  # fmt: skip

    def batches(self) -> Iterator[tuple[Array, Array]]:
        """The tokens and masks of every step: data-parallel ranks x batch x sequence."""
        yield from zip(self.tokens, self.masks, strict=True)
        if self.later is not None:
            yield from zip(*self.later, strict=True)

    def allowed(self) -> float:
        """Bytes that a rank's parameters are: attention and MLP cut by dp_shard and tp, the rest by dp_shard."""
        sizes = dict(self.mesh)
        shard, tp = sizes.get("dp_shard", 1), sizes.get("tp", 1)
        return sum(v.nbytes / shard / (tp if v.ndim == 2 and "layers" in n else 1) for n, v in self.values.items())

    @property
    def bytes(self) -> int:
        return sum(value.nbytes for value in self.values.values())


def size(mesh: Mesh, *names: str) -> int:
    """How many ranks these dimensions have together; without names, the mesh."""
    return math.prod(n for name, n in mesh if not names or name in names)


def data_ranks(mesh: Mesh) -> int:
    return size(mesh) // dict(mesh).get("tp", 1)


def data_rank(mesh: Mesh, rank: int) -> int:
    return rank // dict(mesh).get("tp", 1)  # tp is the last dimension


def fresh(generator: np.random.Generator, vocabulary: int, width: int, hidden: int, layers: int) -> Values:
    """Parameters in float32: attention logits of about 3, and losses that training changes."""
    made: Values = {"embed.weight": generator.normal(0, 1, (vocabulary, width))}
    for n in range(layers):
        for name in ("q", "k", "v", "o"):
            spread = math.sqrt(3 / width) if name in "qk" else math.sqrt(1 / width)
            made[f"layers.{n}.attention.{name}.weight"] = generator.normal(0, spread, (width, width))
        made[f"layers.{n}.mlp.up.weight"] = generator.normal(0, math.sqrt(1 / width), (hidden, width))
        made[f"layers.{n}.mlp.down.weight"] = generator.normal(0, math.sqrt(1 / hidden), (width, hidden))
        made |= _norm(generator, f"layers.{n}.attention_norm", width) | _norm(generator, f"layers.{n}.mlp_norm", width)
    made |= _norm(generator, "norm", width)
    made["head.weight"] = generator.normal(0, math.sqrt(1 / width), (vocabulary, width))
    return {name: np.asarray(value, np.float32) for name, value in made.items()}


def _norm(generator: np.random.Generator, name: str, width: int) -> Values:
    return {f"{name}.weight": generator.normal(1, 0.1, width), f"{name}.bias": generator.normal(0, 0.1, width)}


# ---- one process

Back = Callable[[Array], Array]  # from the gradient of what came out to that of what went in


def _linear(values: Values, grads: Values, name: str, x: Array) -> tuple[Array, Back]:
    weight = values[name]

    def back(g: Array) -> Array:
        grads[name] = g.reshape(-1, g.shape[-1]).T @ x.reshape(-1, x.shape[-1])
        return np.asarray(g @ weight)

    return x @ weight.T, back


def _layer_norm(values: Values, grads: Values, name: str, x: Array) -> tuple[Array, Back]:
    weight = values[f"{name}.weight"]
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + EPS)
    unit = (x - x.mean(-1, keepdims=True)) * scale

    def back(g: Array) -> Array:
        grads[f"{name}.weight"], grads[f"{name}.bias"] = (g * unit).sum((0, 1)), g.sum((0, 1))
        g = g * weight
        return np.asarray(scale * (g - g.mean(-1, keepdims=True) - unit * (g * unit).mean(-1, keepdims=True)))

    return unit * weight + values[f"{name}.bias"], back


def _attention(values: Values, grads: Values, name: str, x: Array, heads: int) -> tuple[Array, Back]:
    b, s, width = x.shape
    parts, backs = zip(*(_linear(values, grads, f"{name}.{each}.weight", x) for each in "qkv"), strict=True)
    q, k, v = (part.reshape(b, s, heads, -1).swapaxes(1, 2) for part in parts)
    scale = 1 / math.sqrt(width // heads)
    logits = np.where(np.tril(np.ones((s, s), bool)), q @ k.swapaxes(2, 3) * scale, -np.inf)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    out, back_o = _linear(values, grads, f"{name}.o.weight", (p @ v).swapaxes(1, 2).reshape(b, s, width))

    def back(g: Array) -> Array:
        g = back_o(g).reshape(b, s, heads, -1).swapaxes(1, 2)
        gp = g @ v.swapaxes(2, 3)
        gl = p * (gp - (gp * p).sum(-1, keepdims=True)) * scale
        of = gl @ k, gl.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ g
        flat = [each.swapaxes(1, 2).reshape(b, s, width) for each in of]
        return np.asarray(sum(one(each) for one, each in zip(backs, flat, strict=True)))

    return out, back


def _mlp(values: Values, grads: Values, name: str, x: Array) -> tuple[Array, Back]:
    up, back_up = _linear(values, grads, f"{name}.up.weight", x)
    sigmoid = 1 / (1 + np.exp(-up))
    out, back_down = _linear(values, grads, f"{name}.down.weight", up * sigmoid)
    return out, lambda g: back_up(back_down(g) * sigmoid * (1 + up * (1 - sigmoid)))


@np.errstate(all="ignore")  # what makes a mistake may leave all bounds
def gradients(values: Values, tokens: Array, weights: Array, heads: int) -> tuple[float, Values]:
    """The sum of the losses of tokens 1 .. s-1 (n, s), each times its weight (n, s - 1), and its gradients."""
    grads: Values = {}
    x, backs = values["embed.weight"][tokens], []
    for n in range(sum(name.endswith("attention.q.weight") for name in values)):
        for part in ("attention", "mlp"):
            normed, back_norm = _layer_norm(values, grads, f"layers.{n}.{part}_norm", x)
            name = f"layers.{n}.{part}"
            out, back = (
                _mlp(values, grads, name, normed) if part == "mlp" else _attention(values, grads, name, normed, heads)
            )
            x = x + out
            backs.append((back_norm, back))
    normed, back_norm = _layer_norm(values, grads, "norm", x)
    logits, back_head = _linear(values, grads, "head.weight", normed)
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    rows, columns = np.indices(weights.shape)
    loss = -float((np.log(p[rows, columns, tokens[:, 1:]]) * weights).sum())
    p[rows, columns, tokens[:, 1:]] -= 1
    g = back_norm(back_head(p * np.pad(weights, ((0, 0), (0, 1)))[..., None]))
    for back_norm, back in reversed(backs):
        g = g + back_norm(back(g))
    grads["embed.weight"] = np.zeros_like(values["embed.weight"])
    np.add.at(grads["embed.weight"], tokens, g)
    return loss, grads


class _Optimizer:
    """SGD with momentum, or AdamW."""

    def __init__(self, job: Job, values: Values) -> None:
        self.job, self.values, self.count = job, values, 0
        self.first = {name: np.zeros_like(value) for name, value in values.items()}
        self.second = {name: np.zeros_like(value) for name, value in values.items()}

    def step(self, grads: Values) -> None:
        job, self.count = self.job, self.count + 1
        for name, g in grads.items():
            value = self.values[name]
            if not job.adam:
                self.first[name] = job.momentum * self.first[name] + g
                value -= job.lr * self.first[name]
                continue
            value *= 1 - job.lr * job.decay
            self.first[name] = 0.9 * self.first[name] + 0.1 * g
            self.second[name] = 0.999 * self.second[name] + 0.001 * g * g
            spread = np.sqrt(self.second[name] / (1 - 0.999**self.count)) + job.eps
            value -= job.lr * self.first[name] / (1 - 0.9**self.count) / spread


Weigh = Callable[[Array], Array]  # from the masks (ranks, b, s) to what each target's loss weighs (ranks, b, s - 1)


def counted(masks: Array) -> Array:
    """The mean over all counted tokens of all ranks."""
    return np.asarray(masks[:, :, 1:] / max(masks[:, :, 1:].sum(), 1))


def losses(
    job: Job, weigh: Weigh = counted, factor: float = 1.0, keep: float = 0.0, forget: str = "", shown: Weigh = counted,
    uncleared: int = 0,
) -> list[float]:  # fmt: skip
    """The loss of every step. Mistakes: how losses are weighed, and shown; a `factor` on gradients; how much of them is
    kept for the next step, and of those that were there before the first `uncleared` step; what the checkpoint forgets
    ("optimizer"; "moments", whose optimizer made one step without gradients; "model"; "both"; or "later": all after the
    first save)."""
    values = {name: value.astype(np.float64) for name, value in job.values.items()}
    optimizer, told = _Optimizer(job, values), []
    before: Values = {name: np.full_like(value, float(job.stale)) for name, value in values.items()}
    for step, (tokens, masks) in enumerate(job.batches()):
        if forget == "later" and step == FIRST_SAVE:
            early = deepcopy(optimizer)
        if step == len(job.tokens) and forget == "later":
            optimizer, values = early, early.values
        elif step == len(job.tokens) and forget:
            if forget in ("model", "both"):
                values = {name: value[::-1].astype(np.float64) for name, value in job.values.items()}
            optimizer = replaced(optimizer, values) if forget == "model" else _Optimizer(job, values)
            optimizer.count += forget == "moments"  # get_state_dict() makes the state by such a step
        flat = tokens.reshape(-1, tokens.shape[-1])
        weights = weigh(masks).reshape(len(flat), -1)
        loss, grads = gradients(values, flat, weights, job.heads)
        if shown is not weigh:
            loss, _ = gradients(values, flat, shown(masks).reshape(len(flat), -1), job.heads)
        if keep or step < uncleared:
            before = grads = {name: (keep or 1) * before[name] + g for name, g in grads.items()}
        optimizer.step({name: factor * g for name, g in grads.items()})
        told.append(loss)
    return told


def apart(job: Job, dimension: str, factor: float) -> list[float]:
    """The losses where gradients are not reduced over a dimension of data parallelism: each of its coordinates trains a
    model of its own, with its own ranks' gradients times `factor`."""
    ways, inner = size(job.mesh, dimension), 1 if dimension == "dp_shard" else size(job.mesh, "dp_shard")
    models = [{name: value.astype(np.float64) for name, value in job.values.items()} for _ in range(ways)]
    optimizers, told = [_Optimizer(job, values) for values in models], []
    for tokens, masks in job.batches():
        weights, loss = counted(masks), 0.0
        for place, (values, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            mine = np.arange(len(tokens)) // inner % ways == place
            flat = tokens[mine].reshape(-1, tokens.shape[-1])
            part, grads = gradients(values, flat, weights[mine].reshape(len(flat), -1), job.heads)
            optimizer.step({name: factor * g for name, g in grads.items()})
            loss += part
        told.append(loss)
    return told


def replaced(optimizer: _Optimizer, values: Values) -> _Optimizer:
    optimizer.values = values
    return optimizer


def mistakes(job: Job) -> Iterator[tuple[list[float], str]]:
    """What the losses would be by each of the usual mistakes, and the sentence that names it."""
    sizes, n = dict(job.mesh), data_ranks(job.mesh)

    def means(masks: Array) -> Array:
        kept = masks[:, :, 1:]
        return np.asarray(kept / np.maximum(kept.sum((1, 2), keepdims=True), 1) / len(masks))

    def every(masks: Array) -> Array:
        return np.full(masks[:, :, 1:].shape, 1 / masks[:, :, 1:].size)

    def shifted(masks: Array) -> Array:
        return np.asarray(masks[:, :, :-1] / max(masks[:, :, :-1].sum(), 1))

    def summed(masks: Array) -> Array:
        return masks[:, :, 1:].astype(np.float64)

    if n > 1:
        told = "the mean of the ranks' own means. Add up the losses and the counts over the data-parallel ranks, then divide."
        yield losses(job, means, shown=means), told
        told = "training with the mean of the ranks' means. Weigh every counted token of all ranks alike."
        yield losses(job, means), told
    yield losses(job, every, shown=every), "the mean over all tokens. Count only the targets where mask is True."
    told = "the mean over the wrong targets. mask[:, t + 1] belongs to the logits at t: use mask[:, 1:]."
    yield losses(job, shifted, shown=shifted), told
    yield losses(job, summed, shown=summed), "a sum. Divide by the number of counted tokens of all data-parallel ranks."
    if sizes.get("tp", 1) > 1:
        told = (
            "a model with more and smaller heads. Each tp rank has 1/tp of the features of q, k and v, so it must view "
            "1/tp of the heads: divide attention.heads."
        )
        yield losses(replace(job, heads=job.heads * sizes["tp"])), told
    for dimension in ("dp_shard", "dp_replicate"):
        for factor in (1.0, sizes.get(dimension, 1), n):
            if sizes.get(dimension, 1) > 1 and not job.other:
                told = f"gradients that are not reduced over {dimension}. Reduce them over all dp dimensions."
                yield apart(job, dimension, factor), told
    for ways in dict.fromkeys(sizes.get(dimension, 1) for dimension in _TOO_LARGE):
        if ways > 1:
            alike = [dimension for dimension in _TOO_LARGE if sizes.get(dimension, 1) == ways]
            told = f"training with gradients that are {ways} times too"
            which = f"{ways} is the size of {says.listed(alike, 'and of')}"
            advice = f"{which}: count no rank's gradient twice, and divide by each size once."
            yield losses(job, factor=ways), f"{told} large. {_TOO_LARGE[alike[0]] if len(alike) == 1 else advice}"
            advice = f"{which}: check by what you divide, and over which ranks you count the tokens."
            yield losses(job, factor=1 / ways), f"{told} small. {advice}"
    if n > 1:
        advice = f" {_TOO_LARGE['dp_shard']}" if "dp_shard" in sizes else ""
        yield losses(job, factor=n), f"training with gradients that are {n} times too large.{advice}"
        yield losses(job, factor=1 / n), f"training with gradients that are {n} times too small."
    yield losses(job, factor=0.0), "a model that never changes. Step the optimizer with the gradients of the step."
    for keep in sorted({1, n, size(job.mesh, "dp_replicate")}):  # what was reduced may be reduced again
        told = "gradients that add up over the steps. Clear them at the beginning of each step."
        yield losses(job, keep=keep), told
    if job.stale:
        told = (
            "a first step that adds to gradients which were there before. The grader left a gradient of ones on each "
            "parameter. Clear the gradients at the beginning of each step, not at its end."
        )
        yield losses(job, uncleared=1), told


_TOO_LARGE = {
    "dp_shard": "Multiply a rank's share of the mean loss by the number of ranks only if fully_shard averages the gradients. "
    "If it adds them up, do not multiply.",
    "dp_replicate": "The loss is a mean over all ranks' tokens: no rank's gradient may count more than once.",
    "tp": "The ranks of a tp group work on the same tokens: do not treat them as data-parallel ranks.",
}


def forgotten(job: Job) -> Iterator[tuple[list[float], str]]:
    """The same for what a checkpoint loses."""
    told = (
        "an optimizer that begins anew. Save its state, too. Before dcp.load, the new optimizer needs tensors to load into: "
        "get_state_dict() makes them."
    )
    yield losses(job, forget="optimizer"), told
    yield losses(job, forget="moments"), told
    yield losses(job, forget="both"), "the new model as it was made. load() must put the saved values into it."
    told = "the first of two saves into this folder. Each save must replace the checkpoint that is there."
    yield losses(job, forget="later"), told
    yield losses(job, forget="model"), "the new model's own parameters with the loaded optimizer's state."
