"""Adds whole tensors along the chain 0, 1, ..., N-1 and sends the sum round once more.

check: bytes
kind: too_many_bytes
only: yes
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    if n == 1:
        return
    right, left = (rank + 1) % n, (rank - 1) % n
    total = tensor.contiguous()
    if rank > 0:
        incoming = torch.empty_like(total)
        dist.recv(incoming, left)
        total += incoming
    if rank < n - 1:
        dist.send(total, right)
        dist.recv(total, left)
    else:
        dist.send(total, right)
    if rank < n - 2:
        dist.send(total, right)
    if not tensor.is_contiguous():
        tensor.copy_(total)
