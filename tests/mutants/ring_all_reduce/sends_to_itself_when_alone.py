"""Starts its first message before the loop, also on one rank, which would be to itself.

check: sum
kind: crash
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)
    request = dist.isend(chunks[rank], right)
    for step in range(n - 1):
        own = chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(own)
        dist.recv(incoming, left)
        request.wait()
        own += incoming
        request = dist.isend(own, right)
    for step in range(n - 1):
        chunk = chunks[(rank - step) % n]
        dist.recv(chunk, left)
        request.wait()
        if step < n - 2:
            request = dist.isend(chunk, right)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
