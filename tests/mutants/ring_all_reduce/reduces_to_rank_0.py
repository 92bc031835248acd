"""Only rank 0 gets the sum: a reduce, not an all-reduce.

check: sum
kind: wrong_result
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    total = tensor.contiguous()
    incoming = torch.empty_like(total)
    if rank < n - 1:
        dist.recv(incoming, rank + 1)
        total += incoming
    if rank > 0:
        dist.send(total, rank - 1)
    if not tensor.is_contiguous():
        tensor.copy_(total)
