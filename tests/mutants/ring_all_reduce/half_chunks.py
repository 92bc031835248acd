"""Sends each chunk in two halves, two messages a step.

check: steps
kind: too_many_messages
only: yes
"""

import torch
import torch.distributed as dist


def exchange(outgoing, incoming, right, left):
    requests = [dist.isend(half, right) for half in outgoing.tensor_split(2)]
    for half in incoming.tensor_split(2):
        dist.recv(half, left)
    for request in requests:
        request.wait()


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)
    for step in range(n - 1):
        own = chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(own)
        exchange(chunks[(rank - step) % n], incoming, right, left)
        own += incoming
    for step in range(n - 1):
        exchange(chunks[(rank + 1 - step) % n], chunks[(rank - step) % n], right, left)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
