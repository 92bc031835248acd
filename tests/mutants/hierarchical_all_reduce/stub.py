"""The function is still the empty cell that was handed out.

check: sum
kind: crash
"""

import torch
import torch.distributed as dist


def hierarchical_all_reduce(tensor: torch.Tensor, ranks_per_node: int) -> None:
    """Sum `tensor` over all ranks, in place; rank r is on node r // ranks_per_node."""
    raise NotImplementedError
