"""Collects its isends and waits for them all at the end, after their buffers were received into.

check: requests
kind: race
only: yes
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)
    requests = []

    for step in range(n - 1):
        outgoing, own = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(own)
        requests.append(dist.isend(outgoing, right))
        dist.recv(incoming, left)
        own += incoming

    for step in range(n - 1):
        requests.append(dist.isend(chunks[(rank + 1 - step) % n], right))
        dist.recv(chunks[(rank - step) % n], left)

    for request in requests:
        request.wait()
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
