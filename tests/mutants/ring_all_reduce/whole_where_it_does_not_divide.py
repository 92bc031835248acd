"""Falls back to whole tensors round the ring where N does not divide the length.

check: bytes
kind: too_many_bytes
only: yes
"""

import torch
import torch.distributed as dist


def exchange(outgoing, incoming, n, rank):
    request = dist.isend(outgoing, (rank + 1) % n)
    dist.recv(incoming, (rank - 1) % n)
    request.wait()


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    flat = tensor.contiguous().view(-1)
    if flat.numel() % n:
        outgoing = flat.clone()
        for _ in range(n - 1):
            incoming = torch.empty_like(flat)
            exchange(outgoing, incoming, n, rank)
            flat += incoming
            outgoing = incoming
    else:
        chunks = flat.view(n, -1) if flat.numel() else [flat] * n
        for step in range(n - 1):
            incoming = torch.empty_like(chunks[0])
            exchange(chunks[(rank - step) % n], incoming, n, rank)
            chunks[(rank - step - 1) % n] += incoming
        for step in range(n - 1):
            exchange(chunks[(rank + 1 - step) % n], chunks[(rank - step) % n], n, rank)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
