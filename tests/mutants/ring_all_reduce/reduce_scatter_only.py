"""Stops after the reduce-scatter: the finished chunks are never passed on.

check: sum
kind: wrong_result
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)
    for step in range(n - 1):
        outgoing, own = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(own)
        request = dist.isend(outgoing, (rank + 1) % n)
        dist.recv(incoming, (rank - 1) % n)
        request.wait()
        own += incoming
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
