"""isend, recv, wait on the views of tensor_split."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)
    for step in range(n - 1):
        own = chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(own)
        request = dist.isend(chunks[(rank - step) % n], right)
        dist.recv(incoming, left)
        request.wait()
        own += incoming
    for step in range(n - 1):
        request = dist.isend(chunks[(rank + 1 - step) % n], right)
        dist.recv(chunks[(rank - step) % n], left)
        request.wait()
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
