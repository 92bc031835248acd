"""Every rank sends its whole tensor to rank 0, which adds up and sends the sum to all.

check: crossing
kind: too_many_bytes
"""

import torch
import torch.distributed as dist


def hierarchical_all_reduce(tensor, ranks_per_node):
    n, rank = dist.get_world_size(), dist.get_rank()
    total = tensor.contiguous()
    if rank:
        dist.send(total, 0)
        dist.recv(total, 0)
    else:
        incoming = torch.empty_like(total)
        for other in range(1, n):
            dist.recv(incoming, other)
            total += incoming
        for other in range(1, n):
            dist.send(total, other)
    if not tensor.is_contiguous():
        tensor.copy_(total)
