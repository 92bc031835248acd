"""Serving a language model, for the exercise serve_llm: a chunk, a small model, and engines in virtual time."""

from __future__ import annotations

from typing import Any, NamedTuple


class Chunk(NamedTuple):
    """Consecutive tokens of one request, for one forward pass.

    `tokens[i]` is the request's token at position `start + i`. The key and value of the token at position p go to slot
    p % block_size of the physical block `block_table[p // block_size]`; those of positions 0 .. start - 1 are read from
    where the table says.
    """

    tokens: list[int]
    start: int
    block_table: list[int]


def watch(engine: Any, **more: Any) -> Any:
    """Run an Engine on a few requests and draw what it did: see `grader.serving.shown.watch`."""
    from grader.serving import shown

    return shown.watch(engine, **more)
