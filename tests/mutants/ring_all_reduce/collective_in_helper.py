"""Builds the reduce-scatter itself and leaves the second half to all_gather, in a helper that catches exceptions.

check: sum
kind: forbidden_call
"""

import torch
import torch.distributed as dist


def share(chunks, mine):
    try:
        dist.all_gather(chunks, mine)
    except Exception as error:
        print("all_gather failed:", error)


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    size = -(-tensor.numel() // n)
    padded = tensor.new_zeros(n * size)
    padded[: tensor.numel()] = tensor.reshape(-1)
    chunks = list(padded.view(n, size))
    for step in range(n - 1):
        own = chunks[(rank - step - 2) % n]
        incoming = torch.empty_like(own)
        request = dist.isend(chunks[(rank - step - 1) % n], (rank + 1) % n)
        dist.recv(incoming, (rank - 1) % n)
        request.wait()
        own += incoming
    share(chunks, chunks[rank].clone())
    tensor.copy_(padded[: tensor.numel()].view(tensor.shape))
