"""Recursive halving and doubling with partner rank ^ distance, which exists only for powers of two.

check: sum
kind: crash
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    size = -(-tensor.numel() // n)
    buffer = tensor.new_zeros(n * size)
    buffer[: tensor.numel()] = tensor.reshape(-1)
    low, high = 0, n
    parts = []
    distance = n // 2
    while distance:
        middle = (low + high) // 2
        keep, give = ((low, middle), (middle, high)) if not rank & distance else ((middle, high), (low, middle))
        incoming = buffer.new_empty((keep[1] - keep[0]) * size)
        request = dist.isend(buffer[give[0] * size : give[1] * size], rank ^ distance)
        dist.recv(incoming, rank ^ distance)
        request.wait()
        buffer[keep[0] * size : keep[1] * size] += incoming
        parts.append((keep, give, distance))
        low, high = keep
        distance //= 2
    for keep, give, distance in reversed(parts):
        request = dist.isend(buffer[keep[0] * size : keep[1] * size], rank ^ distance)
        dist.recv(buffer[give[0] * size : give[1] * size], rank ^ distance)
        request.wait()
    tensor.copy_(buffer[: tensor.numel()].view(tensor.shape))
