"""A small transformer whose keys and values lie in the blocks that tables name: plain numpy, in float64.

It writes where a table says and reads where a table says, and checks neither: with a wrong table it attends to the
keys and values of something else, and its next token is another one. Kwon et al. 2023, "Efficient memory management for
large language model serving with PagedAttention", section 4.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.serving import Chunk

VOCABULARY, WIDTH, HEADS, LAYERS = 32, 16, 2, 2
LONGEST = 512  # tokens of one request
Array = np.ndarray[Any, np.dtype[np.float64]]


class Model:
    """`forward` is all that an engine calls, and `eos` is the token that ends a request.

    `seed` decides the weights. The cache has `blocks` blocks of `block_size` slots; what was never written is noise.
    """

    def __init__(self, blocks: int, block_size: int, seed: int = 0, eos: int = 0) -> None:
        self.eos = eos
        self.blocks, self.block_size = blocks, block_size
        draw = np.random.default_rng([seed, 17])

        def matrix(*shape: int, gain: float = 1.0) -> Array:
            found: Array = draw.standard_normal(shape) * gain / np.sqrt(shape[-2])
            return found

        self._embedding = draw.standard_normal((VOCABULARY, WIDTH))
        self._places = draw.standard_normal((LONGEST, WIDTH))
        self._layers = [
            [*(matrix(WIDTH, WIDTH, gain=1.5) for _ in range(4)), matrix(WIDTH, 2 * WIDTH), matrix(2 * WIDTH, WIDTH)]
            for _ in range(LAYERS)
        ]
        self._head = matrix(WIDTH, VOCABULARY, gain=2.0)
        self._cache = draw.standard_normal((LAYERS, 2, blocks * block_size, WIDTH))

    def forward(self, chunks: Sequence[Chunk]) -> Any:
        """The logits after the last token of each chunk: a float64 tensor (len(chunks), vocabulary).

        Raises ValueError for chunks that are none.
        """
        import torch  # here: only engines need tensors

        return torch.from_numpy(self.logits(chunks))

    def logits(self, chunks: Sequence[Chunk]) -> Array:
        """The same as an array."""
        parts = [plain(chunk) for chunk in chunks]
        raise_unless_whole(parts, self.blocks, self.block_size)
        ends = [start + len(tokens) for tokens, start, _ in parts]
        slots = np.zeros((len(parts), max(ends)), np.int64)
        for row, (_, _, table), end in zip(slots, parts, ends, strict=True):
            at = np.arange(end)
            row[:end] = np.asarray(table)[at // self.block_size] * self.block_size + at % self.block_size
        of = np.repeat(np.arange(len(parts)), [len(tokens) for tokens, _, _ in parts])
        places = np.concatenate([np.arange(start, end) for (_, start, _), end in zip(parts, ends, strict=True)])
        x = self._embedding[np.concatenate([tokens for tokens, _, _ in parts])] + self._places[places]
        written, hidden = slots[of, places], np.arange(max(ends)) > places[:, None]
        for (query, key, value, out, up, down), (keys, values) in zip(self._layers, self._cache, strict=True):
            h = _normal(x)
            keys[written], values[written] = h @ key, h @ value
            x = x + _attention(h @ query, keys[slots][of], values[slots][of], hidden) @ out
            x = x + np.tanh(_normal(x) @ up) @ down
        last = np.cumsum([len(tokens) for tokens, _, _ in parts]) - 1
        found: Array = _normal(x[last]) @ self._head
        return found


def plain(chunk: Any) -> tuple[list[int], int, list[int]]:
    """A chunk's tokens, start and table as Python's own numbers. Raises ValueError."""
    try:
        tokens, start, table = chunk
        return [operator.index(one) for one in tokens], operator.index(start), [operator.index(one) for one in table]
    except (TypeError, ValueError):
        text = f"forward() takes a list of Chunk(tokens, start, block_table), and got {chunk!r:.80} in it"
        raise ValueError(text) from None


def raise_unless_whole(parts: Sequence[tuple[list[int], int, list[int]]], blocks: int, block_size: int) -> None:
    """Raise ValueError where forward() cannot compute these chunks."""
    if not parts:
        raise ValueError("forward() needs at least one chunk. If there is nothing to do, do not call it")
    for tokens, start, table in parts:
        end = start + len(tokens)
        if not tokens:
            text = f"a chunk with start {start} has no tokens. Each chunk needs at least one token"
            raise ValueError(f"{text}, and the last token of a prompt is always computed")
        if any(not 0 <= token < VOCABULARY for token in tokens):
            raise ValueError(f"a chunk has the tokens {tokens}, but tokens are 0 .. {VOCABULARY - 1}")
        if start < 0 or end > LONGEST:
            raise ValueError(f"a chunk is for the positions {start} .. {end - 1}, but positions are 0 .. {LONGEST - 1}")
        needed = -(-end // block_size)
        if len(table) < needed:
            text = f"a chunk ends at position {end - 1}, so with {block_size} slots a block"
            raise ValueError(f"{text} its block_table needs at least {needed}, but it has {len(table)}")
        wrong = [block for block in table[:needed] if not 0 <= block < blocks]
        if wrong:
            raise ValueError(f"a block_table names block {wrong[0]}, but blocks are 0 .. {blocks - 1}")


def _normal(x: Array) -> Array:
    found: Array = x / np.sqrt((x * x).mean(axis=-1, keepdims=True))
    return found


def _attention(query: Array, keys: Array, values: Array, hidden: Any) -> Array:
    """(T, d), (T, L, d), (T, L, d) and where a token (of T) must not look (of L) -> (T, d)."""
    count, longest, width = keys.shape
    split = width // HEADS
    q = query.reshape(count, 1, HEADS, split)
    scores = (q * keys.reshape(count, longest, HEADS, split)).sum(axis=-1) / np.sqrt(split)
    scores[hidden] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    found: Array = (weights[..., None] * values.reshape(count, longest, HEADS, split)).sum(axis=1)
    return found.reshape(count, width)


def alone(
    prompts: Sequence[Sequence[int]], most: Sequence[int], seed: int
) -> tuple[list[list[int]], list[list[float]]]:
    """What each request gets when it is served alone and nothing ends it: `most` of its tokens; and for each token the
    distance between the largest logit and the second."""
    size = max(len(prompt) + count for prompt, count in zip(prompts, most, strict=True))
    model = Model(len(prompts), size, seed)  # a block for each
    found: list[list[int]] = [[] for _ in prompts]
    gaps: list[list[float]] = [[] for _ in prompts]
    chunks = {at: Chunk(list(prompt), 0, [at]) for at, prompt in enumerate(prompts)}
    while chunks:
        logits = model.logits(list(chunks.values()))
        best = np.partition(logits, -2)[:, -2:]
        going = {}
        for token, (second, first), (at, chunk) in zip(logits.argmax(axis=1), best, chunks.items(), strict=True):
            gaps[at].append(float(first - second))
            found[at].append(int(token))
            if len(found[at]) < most[at]:
                going[at] = Chunk([int(token)], chunk.start + len(chunk.tokens), [at])
        chunks = going
    return found, gaps
