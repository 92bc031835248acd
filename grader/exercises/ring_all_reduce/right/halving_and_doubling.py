"""Recursive halving and doubling on powers of two, the ring elsewhere."""

import torch
import torch.distributed as dist


def swap(outgoing, to, incoming, source):
    request = dist.isend(outgoing, to)
    dist.recv(incoming, source)
    request.wait()


def halving_and_doubling(chunks, n, rank):
    """`chunks` is a matrix with n rows."""
    low, high = 0, n
    history = []
    while high - low > 1:
        middle, distance = (low + high) // 2, (high - low) // 2
        keep, give = slice(low, middle), slice(middle, high)
        if rank & distance:
            keep, give = give, keep
        incoming = torch.empty_like(chunks[keep])
        swap(chunks[give], rank ^ distance, incoming, rank ^ distance)
        chunks[keep] += incoming
        history.append((keep, give, rank ^ distance))
        low, high = keep.start, keep.stop
    for keep, give, partner in reversed(history):
        swap(chunks[keep], partner, chunks[give], partner)


def ring(chunks, n, rank):
    for step in range(n - 1):
        incoming = torch.empty_like(chunks[0])
        swap(chunks[(rank - step) % n], (rank + 1) % n, incoming, (rank - 1) % n)
        chunks[(rank - step - 1) % n] += incoming
    for step in range(n - 1):
        swap(chunks[(rank + 1 - step) % n], (rank + 1) % n, chunks[(rank - step) % n], (rank - 1) % n)


@torch.inference_mode()
def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    size = -(-tensor.numel() // n)
    padded = tensor.new_zeros(n * size)
    padded[: tensor.numel()] = tensor.reshape(-1)
    algorithm = halving_and_doubling if n & (n - 1) == 0 else ring
    algorithm(padded.view(n, size), n, rank)
    tensor.copy_(padded[: tensor.numel()].view(tensor.shape))
