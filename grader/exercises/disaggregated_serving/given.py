"""The requests of one case, and what one process makes of them: the same transformer in float64, with numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from grader.exercise import Draw

Array = np.ndarray[Any, Any]
VOCABULARY, HEADS, EPSILON = 24, 2, 1e-6
MARGIN = 0.02  # by which a chosen token is ahead, so that float32 chooses the same one
MOST_DRAWS = 200


@dataclass(frozen=True)
class Plan:
    """One case. `lengths` are those of the prompts, one for each request.

    `layer` is the seconds of a layer for each token of a prompt, `decode` those of a request on each decoder. `killed`
    is a decoder's rank (-1: none), and `during` says in which of its model.decode() it is killed, counted from 1.
    `ordered`: ids grow, so it does not matter whether somebody sorts them first. `zero`: one of them is 0.
    """

    prefillers: int
    decoders: int
    lengths: tuple[int, ...]
    layers: int
    layer: float
    decode: tuple[float, ...]
    width: int = 8
    new: int = 6  # tokens of a request, or one less
    killed: int = -1
    during: int = 0
    ordered: bool = False
    zero: bool = False

    @property
    def ranks(self) -> int:
        return self.prefillers + self.decoders

    @property
    def prefilling(self) -> range:
        return range(self.prefillers)

    @property
    def decoding(self) -> range:
        return range(self.prefillers, self.ranks)

    @property
    def living(self) -> list[int]:
        """The decoders that are there at the end."""
        return [rank for rank in self.decoding if rank != self.killed]


@dataclass(frozen=True)
class Request:
    """One request: its prompt, its tokens, and the cache of every layer, each (2, len(prompt), width)."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    caches: tuple[Array, ...] = field(repr=False)

    @property
    def cache_bytes(self) -> int:
        """Bytes of one layer's cache in float32."""
        return int(4 * self.caches[0].size)


@dataclass(frozen=True)
class Given:
    """What a judge knows of a case: the plan, the requests by id, in order, and the model's weights."""

    plan: Plan
    requests: dict[int, Request]
    embed: Array  # of what goes in, and of what comes out
    positions: Array
    weights: Array

    @cached_property
    def all_bytes(self) -> int:
        """Bytes of the caches of all requests."""
        return sum(request.cache_bytes * self.plan.layers for request in self.requests.values())


def drawn(plan: Plan, draw: Draw, name: str) -> Given:
    """Fresh weights and requests: ids in no order, no two prompts and no two answers the same.

    All ids leave the same rest when they are divided by 2, 3, 4 or 6, so that whoever deals requests out by id, and not
    by place, gives all of them to one rank.
    """
    rng = draw.generator(name)
    for _ in range(MOST_DRAWS):
        found = _drawn(plan, rng)
        if found is not None:
            return found
    raise RuntimeError("no model has answers that float32 is sure of")


def _drawn(plan: Plan, rng: np.random.Generator) -> Given | None:
    """One model with its requests; None where some prompt's choices are too close, whatever its tokens are."""
    scale = plan.width**-0.5
    embed = rng.normal(0, 1, (2, VOCABULARY + 1, plan.width)).astype(np.float32)
    positions = rng.normal(0, 0.5, (max(plan.lengths) + plan.new, plan.width)).astype(np.float32)
    gains = np.array([3.0, 3.0, 1.5, 2.0, 1.5, 1.5])[:, None, None] * scale  # sharp attention, also over long prompts
    weights = (rng.normal(0, 1, (plan.layers, 6, plan.width, plan.width)) * gains).astype(np.float32)
    parts = embed.astype(np.float64), positions.astype(np.float64), weights.astype(np.float64)
    ids = (rng.integers(12) + 12 * rng.permutation(np.arange(1, 83))[: len(plan.lengths)]).tolist()
    ids = sorted(ids) if plan.ordered else ids
    ids = [id_ - min(ids) for id_ in ids] if plan.zero else ids
    requests: dict[int, Request] = {}
    for place, (request, length) in enumerate(zip(ids, plan.lengths, strict=True)):
        for _ in range(MOST_DRAWS // 10):
            prompt = tuple(rng.integers(0, VOCABULARY, length).tolist())
            caches = tuple(prefilled(*parts, prompt))
            tokens, margin = decoded(*parts, caches, plan.new - place % 2)
            fresh = all(prompt != each.prompt and tokens[:3] != each.tokens[:3] for each in requests.values())
            if fresh and margin > MARGIN:
                requests[request] = Request(prompt, tokens, caches)
                break
        else:
            return None
    return Given(plan, requests, embed, positions, weights)


# ---- the model in one process


def prefilled(embed: Array, positions: Array, weights: Array, prompt: tuple[int, ...]) -> Iterator[Array]:
    """The cache of every layer."""
    x = embed[0, list(prompt)] + positions[: len(prompt)]
    for layer in weights:
        x, keys, values = _layer(layer, x, None)
        yield np.stack([keys, values])


def decoded(
    embed: Array, positions: Array, weights: Array, caches: tuple[Array, ...], new: int
) -> tuple[tuple[int, ...], float]:
    """`new` tokens that follow from the caches, and how far the closest choice among them was ahead."""
    kept, token, tokens, ahead = list(caches), VOCABULARY, [], np.inf
    length = caches[0].shape[1]
    for position in range(length, length + new):
        x = embed[0, [token]] + positions[[position]]
        for i, layer in enumerate(weights):
            x, keys, values = _layer(layer, x, kept[i])
            kept[i] = np.stack([keys, values])
        logits = (_normed(x) @ embed[1, :-1].T)[0]
        token = int(logits.argmax())
        second, first = np.sort(logits)[-2:]
        ahead = min(ahead, float(first - second))
        tokens.append(token)
    return tuple(tokens), ahead


def _layer(layer: Array, x: Array, cache: Array | None) -> tuple[Array, Array, Array]:
    query, key, value, output, up, down = layer
    normed = _normed(x)
    keys, values = normed @ key, normed @ value
    if cache is not None:
        keys, values = np.concatenate([cache[0], keys]), np.concatenate([cache[1], values])
    q, k, v = (each.reshape(len(each), HEADS, -1).swapaxes(0, 1) for each in (normed @ query, keys, values))
    scores = q @ k.swapaxes(1, 2) / (x.shape[1] // HEADS) ** 0.5
    if cache is None:
        scores = np.where(np.triu(np.ones((len(x), len(x))), 1) > 0, -np.inf, scores)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    x = x + (shares @ v).swapaxes(0, 1).reshape(len(x), -1) @ output
    return x + np.maximum(_normed(x) @ up, 0) @ down, keys, values


def _normed(x: Array) -> Array:
    found: Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)
    return found
