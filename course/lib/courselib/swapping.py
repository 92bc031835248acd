"""Two ranks that exchange a tensor: for two, a plain swap is an optimal all-reduce, all-gather and reduce-scatter."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def swap(mine: Tensor) -> Tensor:
    """Sends this to the other rank, and returns what that one sent, of the same shape and dtype."""
    other = 1 - dist.get_rank()
    request, got = dist.isend(mine, other), torch.empty_like(mine)
    dist.recv(got, other)
    request.wait()
    return got
