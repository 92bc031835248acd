"""The function is still the empty cell that was handed out.

check: sum
kind: crash
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    """Sum `tensor` over all ranks, in place, with point-to-point messages only."""
    raise NotImplementedError
