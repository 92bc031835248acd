"""Context parallelism: which positions a rank has, and how much work a causal mask leaves it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from courselib.svg import Plot
from courselib.timeline import timeline


def contiguous(seq: int, ranks: int) -> list[Tensor]:
    """The positions of each rank, if the sequence is cut into equal pieces."""
    return list(torch.arange(seq).chunk(ranks))


def zigzag(seq: int, ranks: int) -> list[Tensor]:
    """The positions of each rank, if it has one piece from the front and its mirror image from the back."""
    pieces = torch.arange(seq).chunk(2 * ranks)
    return [torch.cat([pieces[rank], pieces[2 * ranks - 1 - rank]]) for rank in range(ranks)]


def striped(seq: int, ranks: int) -> list[Tensor]:
    """The positions of each rank, if every N-th token is its own (Brandon et al., "Striped Attention", 2023)."""
    return [torch.arange(rank, seq, ranks) for rank in range(ranks)]


def pairs(queries: Tensor, keys: Tensor) -> int:
    """How many (query, key) pairs a causal mask leaves: key position <= query position."""
    return int((keys[None, :] <= queries[:, None]).sum())


def hops(positions: list[Tensor]) -> list[list[int]]:
    """For each rank, the pairs of each hop of a ring: at hop j, rank r has the keys of rank r - j."""
    n = len(positions)
    return [[pairs(positions[r], positions[(r - hop) % n]) for hop in range(n)] for r in range(n)]


def picture(title: str, run: Any, until: float) -> Plot:
    """Each rank's boxes of computing, as a run returned them, on an axis that ends `until`; prints how long it took."""
    rows = {f"rank {r}": [box for box in boxes if box[1] > box[0]] for r, boxes in enumerate(run.returned)}
    busy = [sum(to - since for since, to, *_ in boxes) for boxes in run.returned]
    print(f"{title}: {run.seconds:.2f} s; the ranks compute {', '.join(f'{b:.2f}' for b in busy)} s")
    return timeline(title, rows, until=until)
