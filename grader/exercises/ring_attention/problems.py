"""What ranks attend to, drawn afresh, and full attention on all of it in one process, in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from grader.ranks.program import Strided

Array = np.ndarray[Any, Any]
CODE_BITS = 12  # the last bits of every number of a rank's K and V, where these are looked for in memory
NAMES = ("output", "gradient of q", "gradient of k", "gradient of v")


@dataclass(frozen=True)
class Size:
    """Of the whole sequence: each rank has `length` of its positions."""

    ranks: int
    length: int
    batch: int = 1
    heads: int = 2
    dim: int = 8

    @property
    def sequence(self) -> int:
        return self.ranks * self.length

    @property
    def shard(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, self.length, self.dim

    @property
    def pair(self) -> int:
        """Bytes of one rank's K and V."""
        return 2 * 4 * int(np.prod(self.shard))

    def __str__(self) -> str:
        ranks = f"{self.ranks} rank{'s' * (self.ranks > 1)}"
        return f"{ranks}, shards of shape {self.shard}"


@dataclass(frozen=True, eq=False)
class Problem:
    """Shards of q, k, v and of the output's gradient: each (ranks, batch, heads, length, dim), float32.

    Nobody holds the whole sequence before it is split: each rank gets numbers of its own, and where in the sequence
    they stand is what the learner's `split` says.
    """

    size: Size
    q: Array
    k: Array
    v: Array
    grad: Array
    layout: str = "contiguous"

    def told(self, rank: int) -> tuple[Strided, ...]:
        """What a rank is given of it."""
        return tuple(_laid_out(each[rank], self.layout) for each in (self.q, self.k, self.v, self.grad))

    @cached_property
    def _rows(self) -> tuple[Array, ...]:
        return tuple(_rows(each) for each in (self.q, self.k, self.v, self.grad))

    @property
    def scale(self) -> float:
        return float(self.size.dim**-0.5)

    def attended(self, seen: Array | None, scale: float | None = None) -> list[Array]:
        """The output and the gradients of q, k and v, each (ranks, batch, heads, length, dim).

        `seen[i, j]` says whether query i may see key j, both in the order of ranks; None: every one.
        """
        q, k, v, grad = self._rows
        weights, slopes = self._blocks(seen, self.scale if scale is None else scale)
        found = (weights @ v, slopes @ k, slopes.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad)
        return [_by_rank(each, self.size) for each in found]

    def _blocks(self, seen: Array | None, scale: float) -> tuple[Array, Array]:
        """The weights, and the gradients of the logits before the scale, (batch, heads, queries, keys)."""
        q, k, v, grad = self._rows
        logits = q @ k.swapaxes(-1, -2) * scale
        if seen is not None:
            logits = np.where(seen, logits, -np.inf)
        with np.errstate(invalid="ignore"):
            weights = np.exp(logits - logits.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
        weights = np.nan_to_num(weights)  # of a query that sees nothing, in one of the mistakes
        row = (grad * (weights @ v)).sum(-1, keepdims=True)
        return weights, weights * (grad @ v.swapaxes(-1, -2) - row) * scale

    def parts(self, seen: Array | None, what: int, rank: int) -> list[Array]:
        """What each rank's K and V add to the gradient of q on `rank` (1), or its queries to that of k (2) or v (3)."""
        q, k, _, grad = self._rows
        weights, slopes = self._blocks(seen, self.scale)
        at = [slice(other * self.size.length, (other + 1) * self.size.length) for other in range(self.size.ranks)]
        if what == 1:
            return [slopes[..., at[rank], other] @ k[..., other, :] for other in at]
        block, right = (slopes, q) if what == 2 else (weights, grad)
        return [block[..., other, at[rank]].swapaxes(-1, -2) @ right[..., other, :] for other in at]

    def seen(self, places: Array | None) -> Array | None:
        """Which query may see which key, where `places[rank]` are a rank's positions; None without a mask."""
        if places is None:
            return None
        flat = places.reshape(-1)
        return np.asarray(flat[:, None] >= flat[None, :])

    def strictly(self, places: Array) -> list[Array]:
        """What `attended` gives where no query sees the key at its own position."""
        flat = places.reshape(-1)
        return self.attended(flat[:, None] > flat[None, :])

    def filled(self, seen: Array, masked: float) -> list[Array]:
        """The output where masked logits are a number."""
        q, k, v, _ = self._rows
        return [_by_rank(_softmax(np.where(seen, q @ k.swapaxes(-1, -2) * self.scale, masked)) @ v, self.size)]

    def exchanged(self, seen: Array | None) -> list[Array]:
        """The output where K and V of other ranks have changed places."""
        q, k, v, _ = self._rows
        own = self.owners()[:, None] == self.owners()[None, :]
        logits = np.where(own, q @ k.swapaxes(-1, -2), q @ v.swapaxes(-1, -2)) * self.scale
        weights = _softmax(logits if seen is None else np.where(seen, logits, -np.inf))
        return [_by_rank((weights * own) @ v + (weights * ~own) @ k, self.size)]

    def without_rows(self, seen: Array | None) -> list[Array]:
        """What `attended` gives where the backward pass subtracts no sum of dO * O."""
        q, k, v, grad = self._rows
        weights, _ = self._blocks(seen, self.scale)
        slopes = weights * (grad @ v.swapaxes(-1, -2)) * self.scale
        found = (weights @ v, slopes @ k, slopes.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad)
        return [_by_rank(each, self.size) for each in found]

    def remasked(self, seen: Array | None, other: Array | None) -> list[Array]:
        """What `attended` gives where the backward pass masks by `other`, with each query's sums of the forward pass."""
        q, k, v, grad = self._rows
        logits = q @ k.swapaxes(-1, -2) * self.scale
        forward, again = (logits if mask is None else np.where(mask, logits, -np.inf) for mask in (seen, other))
        top = forward.max(-1, keepdims=True)
        total = np.exp(forward - top).sum(-1, keepdims=True)
        out = np.exp(forward - top) / total @ v
        weights = np.exp(again - top) / total
        slopes = weights * (grad @ v.swapaxes(-1, -2) - (grad * out).sum(-1, keepdims=True)) * self.scale
        found = (out, slopes @ k, slopes.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad)
        return [_by_rank(each, self.size) for each in found]

    def owners(self) -> Array:
        """Of each row of the sequence, in the order of ranks."""
        return np.repeat(np.arange(self.size.ranks), self.size.length)

    def in_shards(self, seen: Array | None) -> list[Array]:
        """The output and the gradients of q for a softmax over each shard's keys alone: [shard] of `attended`'s first."""
        owner, whole = self.owners(), np.ones((len(self.owners()),) * 2, bool) if seen is None else seen
        return [self.attended(whole & (owner == shard)[None, :])[0] for shard in range(self.size.ranks)]


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def mistakes(problem: Problem, places: Array | None) -> Iterator[tuple[Callable[[], list[Array]], str]]:
    """What output and gradients would be by each of the usual mistakes, and the sentence that names it."""
    seen, n, length = problem.seen(places), problem.size.ranks, problem.size.length
    owner, local = problem.owners(), np.tile(np.arange(length), n)
    whole = np.ones((len(owner),) * 2, bool) if seen is None else seen
    yield lambda: problem.attended(seen, 1.0), "These values need a scale: divide the logits by sqrt(dim)."
    size, right = problem.size, f"The right scale is 1/sqrt(dim) = {problem.scale:.3g}"
    for told, other in (
        ("1/dim", 1 / size.dim),
        ("1/sqrt(heads)", size.shard[1] ** -0.5),
        ("1/sqrt(length of the shard)", length**-0.5),
    ):
        if abs(other / problem.scale - 1) > 0.01:
            yield partial(problem.attended, seen, other), f"The logits have a scale of {told} = {other:.3g}. {right}."
    told = (
        "The gradients of the logits are dP * P without D, the sum of dO * O of each query. Subtract D from dP first."
    )
    yield lambda: problem.without_rows(seen), told
    if n > 1:
        told = (
            "K and V of other ranks have changed places. Messages of one sender are received in the order in which they "
            "are sent, if their tags are alike."
        )
        yield lambda: problem.exchanged(seen), told
        told = "These values attend to the rank's own keys only. Every query must meet the keys of all ranks."
        yield lambda: problem.attended(whole & (owner[:, None] == owner[None, :])), told
        alone = (
            "Each shard has a softmax of its own, and the parts are {} up as they are. Before you add a part, scale "
        )
        alone += "it and the sum so far to one common maximum, and divide by the sum of all exponentials at the end."
        yield lambda: [np.sum(problem.in_shards(seen), 0)], alone.format("added")
        yield lambda: [np.mean(problem.in_shards(seen), 0)], alone.format("averaged")
    if places is None:
        lower = local[:, None] >= local[None, :]
        yield lambda: problem.attended(lower), "There is a mask here, although causal is False."
        return
    for number in (0.0, -100.0):
        told = "Masked logits are a finite number here, and count like other logits. Set them to -inf."
        yield partial(problem.filled, whole, number), told
    flat = places.reshape(-1)
    yield lambda: problem.attended(None), "There is no mask here, although causal is True."
    yield lambda: problem.attended(flat[:, None] <= flat[None, :]), "The mask is the wrong way round."
    yield (
        lambda: problem.attended(flat[:, None] > flat[None, :]),
        "A query does not see the key at its own position. The mask is query position >= key position.",
    )
    if n == 1:
        return
    told = (
        "The mask compares places within the shards. Compare positions in the whole sequence: split() decides which of "
        "them a rank has."
    )
    yield lambda: problem.attended(local[:, None] >= local[None, :]), told
    row = np.arange(len(flat))
    yield (
        lambda: problem.attended(row[:, None] >= row[None, :]),
        "The mask takes rank r's positions to be r * L to (r + 1) * L - 1, but split() gives the ranks other positions.",
    )
    diagonal = (owner[:, None] == owner[None, :]) & (local[:, None] < local[None, :])
    yield (
        lambda: problem.attended(~diagonal),
        "Only the rank's own shard is masked. Mask the shards of other ranks, too.",
    )


def draw(
    generator: np.random.Generator, size: Size, *, most: float = 6.0, layout: str = "contiguous", coded: bool = False,
    far: str = "",
) -> tuple[Problem, tuple[int, ...]]:  # fmt: skip
    """A problem whose largest logit is `most`, and each rank's code, which stands in its K and V where they are `coded`.

    `far` moves the logits by about 200: "up and down" by the sign of the query, so that some rows have none above -100;
    "mixed" by the signs of query and key.
    """
    shape = (size.ranks, *size.shard)
    q, k, v, grad = (generator.standard_normal(shape).astype(np.float32) for _ in range(4))
    away = (200 * size.dim**0.5) ** 0.5
    if far:
        signs = generator.choice([-1, 1], shape[:-1])
        signs[..., :2] = [-1, 1]  # both in every shard
        k[..., 0] = away if far == "up and down" else away * np.roll(signs, 1, -1)
        q[..., 0] = away * signs
    else:
        logits = np.abs(_rows(q) @ _rows(k).swapaxes(-1, -2)).max() * size.dim**-0.5
        q *= np.float32(most / logits)
    possible = np.arange(259, 2**CODE_BITS, 2)  # what no small integer, no round number and no row of booleans has
    codes = tuple(int(code) for code in generator.choice(possible, size.ranks, replace=False))
    if coded:
        for each in (k, v):
            bits = each.view(np.uint32)
            bits &= ~np.uint32(2**CODE_BITS - 1)
            bits |= np.array(codes, np.uint32).reshape(-1, 1, 1, 1, 1)
    return Problem(size, q, k, v, grad, layout), codes


def _rows(shards: Array) -> Array:
    """(ranks, batch, heads, length, dim) as (batch, heads, ranks * length, dim) in float64, in the order of ranks."""
    return np.concatenate(shards.astype(np.float64), axis=-2)


def _by_rank(rows: Array, size: Size) -> Array:
    return np.stack(np.split(rows, size.ranks, axis=-2))


def _laid_out(array: Array, layout: str) -> Strided:
    """The values in memory as models have them: heads before or after positions, or every other element of more."""
    _, heads, length, dim = array.shape
    if layout == "heads last":  # as x.view(batch, length, heads, dim).transpose(1, 2)
        flat = np.ascontiguousarray(array.transpose(0, 2, 1, 3)).reshape(-1)
        return Strided(flat, array.shape, (heads * length * dim, dim, heads * dim, 1))
    if layout == "every other":
        flat = np.zeros((array.size, 2), np.float32)
        flat[:, 0] = array.reshape(-1)
        return Strided(flat.reshape(-1), array.shape, tuple(2 * step for step in Strided.of(array).stride))
    return Strided.of(array)
