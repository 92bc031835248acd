"""Has a bracket that is never closed.

check: sum
kind: syntax_error
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    chunks = list(tensor.reshape(-1).tensor_split(n)
    for step in range(n - 1):
        dist.send(chunks[(rank - step) % n], (rank + 1) % n)
