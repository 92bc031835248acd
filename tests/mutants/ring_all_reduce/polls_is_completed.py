"""Polls is_completed() of its requests, which on gloo stays false until somebody calls wait().

check: sum
kind: timeout
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)

    for step in range(n - 1):
        outgoing, own = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(own)
        requests = [dist.isend(outgoing, right), dist.irecv(incoming, left)]
        while not all(request.is_completed() for request in requests):
            pass
        own += incoming

    for step in range(n - 1):
        request = dist.isend(chunks[(rank + 1 - step) % n], right)
        dist.recv(chunks[(rank - step) % n], left)
        request.wait()

    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
