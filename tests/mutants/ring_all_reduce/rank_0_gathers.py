"""Rank 0 receives every tensor, adds them up and sends the sum to everybody.

check: bytes
kind: too_many_bytes
only: yes
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    flat = tensor.contiguous()
    if rank == 0:
        incoming = torch.empty_like(flat)
        for other in range(1, n):
            dist.recv(incoming, other)
            flat += incoming
        for other in range(1, n):
            dist.send(flat, other)
    else:
        dist.send(flat, 0)
        dist.recv(flat, 0)
    if not tensor.is_contiguous():
        tensor.copy_(flat)
