"""Passes whole tensors round the ring instead of chunks.

check: bytes
kind: too_many_bytes
only: yes
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    outgoing = tensor.clone(memory_format=torch.contiguous_format)
    for _ in range(n - 1):
        incoming = torch.empty_like(outgoing)
        request = dist.isend(outgoing, (rank + 1) % n)
        dist.recv(incoming, (rank - 1) % n)
        request.wait()
        tensor += incoming
        outgoing = incoming
