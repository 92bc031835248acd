"""Functions imported by name, a default argument, a previous send waited for in the next step."""

import torch
from torch.distributed import get_rank, get_world_size, isend, recv


def ring_all_reduce(tensor, *, verbose=False):
    n, rank = get_world_size(), get_rank()
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)
    previous = None
    for step in range(2 * n - 2):
        gathering = step >= n - 1
        give = (rank - step + gathering * n) % n
        into = chunks[(give - 1) % n]
        buffer = torch.empty_like(into)
        request = isend(chunks[give], (rank + 1) % n)
        sender = recv(buffer, (rank - 1) % n)
        if verbose:
            print(f"rank {rank} received {buffer.numel()} elements from {sender}")
        if previous is not None:
            previous.wait()
        previous = request
        into.copy_(buffer if gathering else into + buffer)
    if previous is not None:
        previous.wait()
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
