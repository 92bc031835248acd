"""One buffer carries the chunk that is passed on and the one that comes in: it is received into while it is still being sent.

check: requests
kind: race
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)
    buffer = torch.empty_like(chunks[0])

    buffer[: chunks[rank].numel()] = chunks[rank]
    size = chunks[rank].numel()
    for step in range(n - 1):
        index = (rank - step - 1) % n
        request = dist.isend(buffer[:size], right)
        size = chunks[index].numel()
        dist.recv(buffer[:size], left)
        request.wait()
        buffer[:size] += chunks[index]
    chunks[(rank + 1) % n].copy_(buffer[:size])

    for step in range(n - 1):
        request = dist.isend(chunks[(rank + 1 - step) % n], right)
        dist.recv(chunks[(rank - step) % n], left)
        request.wait()
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
