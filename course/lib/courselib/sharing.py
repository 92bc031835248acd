"""Who computes what of attention under a causal mask, where each rank has some positions of the sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from courselib.svg import COLOURS, FAINT, GRID, WIDTH, Plot, caption, document

SIDE, LEFT, TOP, BAR = 288, 40, 64, 26


def causal_work(split: Callable[[Tensor, int], Sequence[Tensor]], ranks: int, length: int) -> Plot:
    """All pairs of a query and a key that it may see, in the color of the rank that has the query, and how many pairs
    each rank has. `split` cuts dimension 2 of a (1, 1, ranks * length, 1) tensor into a shard for each rank."""
    sequence = ranks * length
    shards = [shard.flatten().tolist() for shard in split(torch.arange(sequence).view(1, 1, -1, 1), ranks)]
    pairs = [sum(position + 1 for position in shard) for shard in shards]
    parts = [f'<rect x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" stroke="{GRID}"/>']
    cell, mean = SIDE / sequence, sum(pairs) / ranks
    for rank, shard in enumerate(shards):
        parts += [
            f'<rect x="{LEFT}" y="{TOP + position * cell:.2f}" width="{(position + 1) * cell:.2f}" '
            f'height="{cell:.2f}" fill="{COLOURS[rank % len(COLOURS)]}"/>'
            for position in shard
        ]
    parts.append(caption(LEFT, TOP - 8, f"keys 0 to {sequence - 1}", "start"))
    parts.append(
        f'<text transform="translate({LEFT - 10} {TOP + SIDE / 2}) rotate(-90)" text-anchor="middle" fill="{FAINT}" '
        f'font-size="11">queries 0 to {sequence - 1}</text>'
    )
    x, wide = LEFT + SIDE + 40, WIDTH - LEFT - SIDE - 60
    parts.append(caption(x, TOP - 8, "pairs of a query and a key on each rank", "start"))
    for rank, count in enumerate(pairs):
        y, colour = TOP + rank * (BAR + 18), COLOURS[rank % len(COLOURS)]
        parts.append(
            f'<rect x="{x}" y="{y + 14}" width="{wide * count / max(pairs):.1f}" height="{BAR - 10}" fill="{colour}"/>'
        )
        parts.append(caption(x, y + 9, f"rank {rank}: {count:,} pairs, {count / mean:.2f} times the mean", "start"))
    height = max(TOP + SIDE, TOP + ranks * (BAR + 18)) + 16
    return Plot(document(f"{ranks} ranks share {sequence} positions under a causal mask", parts, height), "causal work")
