"""What expert_parallel must give: a mixture of experts in one process, forward and backward, in numpy and float64.

Top-k routing (Shazeer et al. 2017, section 2.1), experts spread over ranks and a capacity for each (Lepikhin et al. 2021,
GShard, sections 3.1 and 3.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Expert = tuple[Array, Array, Array, Array]  # weight [h, d] and bias [h], weight [d, h] and bias [d]; tanh between them
FEATURES, HIDDEN = 8, 16
LEAST_GAP = 0.1  # between two logits of a token


@dataclass(frozen=True)
class Batch:
    """One step's tokens: `x[rank]` and the gradient of the output, `wish[rank]`, both [tokens, features]."""

    x: tuple[Array, ...]
    wish: tuple[Array, ...]

    @cached_property
    def rank(self) -> Array:
        """Of each token of the concatenation."""
        return np.repeat(np.arange(len(self.x)), [len(part) for part in self.x])

    @property
    def tokens(self) -> int:
        return len(self.rank)


@dataclass(frozen=True)
class Layer:
    """The router's weight [E, d] and bias [E], the experts, and the rule: `k` of them a token, at most `capacity` pairs
    of a token and a choice for each (None: no limit)."""

    ranks: int
    weight: Array
    bias: Array
    experts: tuple[Expert, ...]
    k: int
    capacity: int | None = None

    def owner(self, expert: int) -> int:
        """The rank that holds an expert."""
        return expert * self.ranks // len(self.experts)


@dataclass(frozen=True)
class Routing:
    """Of each token of a batch: its `chosen` experts [tokens, k], the best first, their `weights`, and which of these
    pairs are `kept`."""

    chosen: Array
    weights: Array
    kept: Array


@dataclass(frozen=True)
class Right:
    """What one step gives. `router[rank]` is what that rank's tokens add to the gradients of weight and bias, and
    `through_router` the part of the inputs' gradients that comes through the weights."""

    outputs: list[Array]
    inputs: list[Array]
    through_router: list[Array]
    router: list[tuple[Array, Array]]
    experts: list[Expert]

    @property
    def router_sum(self) -> tuple[Array, Array]:
        weight, bias = zip(*self.router, strict=True)
        return np.sum(weight, 0), np.sum(bias, 0)


# ---- routing


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def route(layer: Layer, batch: Batch) -> Routing:
    """The rule of the exercise."""
    logits = np.concatenate(batch.x).astype(np.float64) @ layer.weight.astype(np.float64).T + layer.bias
    chosen = np.argsort(-logits, axis=1)[:, : layer.k]
    weights = softmax(np.take_along_axis(logits, chosen, 1))
    routing = Routing(chosen, weights, np.ones(chosen.shape, bool))
    return replace(routing, kept=keep(layer, batch, routing, in_order))


Key = Callable[[int, int, int, float], tuple[float, ...]]  # of choice, rank, position and weight: the least are kept


def in_order(choice: int, rank: int, position: int, weight: float) -> tuple[float, ...]:
    return choice, rank, position


def keep(layer: Layer, batch: Batch, routing: Routing, key: Key, within: Key | None = None) -> Array:
    """The pairs that are kept: of each expert the first `capacity` by `key`; those of each value of `within` apart."""
    kept = np.ones(routing.chosen.shape, bool)
    if layer.capacity is None:
        return kept
    starts = np.concatenate([np.arange(len(part)) for part in batch.x])
    pairs = [(token, choice) for token in range(batch.tokens) for choice in range(layer.k)]
    groups: dict[Any, list[tuple[tuple[float, ...], tuple[int, int]]]] = {}
    for token, choice in pairs:
        told = choice, int(batch.rank[token]), int(starts[token]), float(routing.weights[token, choice])
        group = routing.chosen[token, choice], within(*told) if within else ()
        groups.setdefault(group, []).append((key(*told), (token, choice)))
    for found in groups.values():
        for _, pair in sorted(found)[layer.capacity :]:
            kept[pair] = False
    return kept


def only(layer: Layer, batch: Batch, choice: int) -> Routing:
    """By the rule, but without all other choices."""
    routing = route(layer, batch)
    return replace(routing, kept=routing.kept & (np.arange(layer.k) == choice))


# ---- forward and backward


def solve(layer: Layer, batch: Batch, routing: Routing | None = None) -> Right:
    """Outputs and gradients by the rule, or by another routing."""
    routing = routing or route(layer, batch)
    x, wish = (np.concatenate(parts).astype(np.float64) for parts in (batch.x, batch.wish))
    out, into, into_weights = np.zeros_like(x), np.zeros_like(x), np.zeros(routing.weights.shape)
    experts = []
    for number, expert in enumerate(layer.experts):
        token, choice = np.nonzero((routing.chosen == number) & routing.kept)
        up, offset, down, shift = (part.astype(np.float64) for part in expert)
        hidden = np.tanh(x[token] @ up.T + offset)
        y, weight = hidden @ down.T + shift, routing.weights[token, choice][:, None]
        np.add.at(out, token, weight * y)
        into_weights[token, choice] = (wish[token] * y).sum(1)
        g = weight * wish[token]
        before = (g @ down) * (1 - hidden * hidden)
        np.add.at(into, token, before @ up)
        experts.append((before.T @ x[token], before.sum(0), g.T @ hidden, g.sum(0)))
    spread = routing.weights * (into_weights - (routing.weights * into_weights).sum(1, keepdims=True))
    logits = np.zeros((len(x), len(layer.experts)))
    np.put_along_axis(logits, routing.chosen, spread, 1)
    through = logits @ layer.weight.astype(np.float64)
    ranks = range(layer.ranks)
    router = [
        (logits[batch.rank == rank].T @ x[batch.rank == rank], logits[batch.rank == rank].sum(0)) for rank in ranks
    ]

    def split(whole: Array) -> list[Array]:
        return [whole[batch.rank == rank] for rank in ranks]

    return Right(split(out), split(into + through), split(through), router, experts)


def shares(layer: Layer, batch: Batch, token: int, got: Array) -> tuple[Array, Array] | None:
    """How many times the outputs of a token's chosen experts a row holds, and how many times it should; None where it is
    no such sum."""
    routing = route(layer, batch)
    ones = replace(routing, weights=np.ones(routing.weights.shape), kept=np.ones(routing.kept.shape, bool))
    rows = []
    for choice in range(layer.k):
        alone = replace(ones, kept=ones.kept & (np.arange(layer.k) == choice))
        rows.append(np.concatenate(solve(layer, batch, alone).outputs)[token])
    columns = np.stack(rows, 1)
    found = np.linalg.lstsq(columns, got, rcond=None)[0]
    close = np.abs(columns @ found - got).max() <= 1e-4 * max(float(np.abs(got).max()), 0.1)
    return (found, routing.weights[token] * routing.kept[token]) if close else None


# ---- usual mistakes


def other_drops(layer: Layer, batch: Batch, routing: Routing) -> Iterator[tuple[Array, str]]:
    """What would be kept by each of the usual mistakes, and the sentence that names it.

    In keys c, r, p and w are a pair's choice, rank, position and weight.
    """
    each = layer.capacity
    assert each is not None

    def kept(key: Key, within: Key | None = None, capacity: int = each) -> Array:
        return keep(replace(layer, capacity=capacity), batch, routing, key, within)

    rule = "Order an expert's pairs by (choice, rank, position), and drop the last"
    for wrong in (each + 1, each - 1)[: 1 + (each > 0)]:
        told = f"An expert takes {wrong} pairs. The capacity is {each}: exactly {each} are kept"
        yield kept(in_order, capacity=wrong), told
    told = f"Within a rank, the pairs of the last positions were kept. {rule}"
    yield kept(lambda c, r, p, w: (c, r, -p)), told
    yield np.ones(routing.kept.shape, bool), f"Nothing was dropped, but an expert takes at most {each} pairs"
    if layer.ranks > 1:
        told = f"Every rank's pairs were counted apart. The capacity {each} is for the pairs of all ranks together"
        yield kept(in_order, lambda c, r, p, w: (r,)), told
        share = each // layer.ranks
        told = f"Every rank was given {share} of the {each} places. A rank may use more than its share"
        yield kept(in_order, lambda c, r, p, w: (r,), share), told
        yield kept(lambda c, r, p, w: (c, p, r)), f"Position was compared before rank. {rule}"
    yield kept(lambda c, r, p, w: (-c, -r, -p)), f"The first pairs were dropped and the last kept. {rule}"
    if layer.k > 1:
        told = f"A token's second choice took the place of a later token's first choice. {rule}"
        yield kept(lambda c, r, p, w: (r, p, c)), told
        told = f"Every choice had its own {each} places. The capacity is for the pairs of all choices together"
        yield kept(in_order, lambda c, r, p, w: (c,)), told
        yield kept(lambda c, r, p, w: (-w, r, p)), f"The pairs of the largest weight were kept. {rule}"


def mistakes(layer: Layer, batch: Batch) -> Iterator[tuple[Right, str]]:
    """What a step would give by each of the usual mistakes, and the sentence that names it."""
    right = route(layer, batch)
    logits = np.concatenate(batch.x).astype(np.float64) @ layer.weight.T + layer.bias
    if layer.capacity is not None:
        for kept, told in other_drops(layer, batch, right):
            yield solve(layer, batch, replace(right, kept=kept)), f"{told}."
        if layer.k > 1:
            shares = right.weights * right.kept
            shares = shares / np.maximum(shares.sum(1, keepdims=True), 1e-12)
            told = "The weights were renormalized after the drop. A dropped pair's weight is lost."
            yield solve(layer, batch, replace(right, weights=shares)), told
    everyone = np.take_along_axis(softmax(logits), right.chosen, 1)
    told = f"These are the weights of a softmax over all {len(layer.experts)} logits. " + (
        f"Take the softmax over the {layer.k} chosen logits only." if layer.k > 1 else "With k = 1 the weight is 1."
    )
    yield solve(layer, batch, replace(right, weights=everyone)), told
    each = len(layer.experts) // layer.ranks
    if layer.ranks > 1 and each > 1:
        dealt = tuple(layer.experts[e % layer.ranks * each + e // layer.ranks] for e in range(len(layer.experts)))
        told = f"The experts were taken to be dealt to the ranks in turn. Rank 0 holds experts 0 to {each - 1}."
        yield solve(replace(layer, experts=dealt), batch), told
    if layer.k > 1:
        told = "All chosen experts count alike. Multiply each output by its weight."
        yield solve(layer, batch, replace(right, weights=np.ones(right.weights.shape))), told
        for choice in range(layer.k):
            told = f"Only choice {choice + 1} of {layer.k} counts. Add the weighted outputs of all choices."
            yield solve(layer, batch, only(layer, batch, choice)), told
