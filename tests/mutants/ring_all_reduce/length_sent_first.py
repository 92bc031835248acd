"""Sends the length of every chunk in a message before the chunk.

check: steps
kind: too_many_messages
"""

import torch
import torch.distributed as dist


def exchange(outgoing, right, left):
    requests = [dist.isend(torch.tensor([outgoing.numel()]), right), dist.isend(outgoing, right)]
    length = torch.zeros(1, dtype=torch.int64)
    dist.recv(length, left)
    incoming = outgoing.new_empty(int(length))
    dist.recv(incoming, left)
    for request in requests:
        request.wait()
    return incoming


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = list(tensor.reshape(-1).tensor_split(n))
    for step in range(n - 1):
        chunks[(rank - step - 1) % n] = chunks[(rank - step - 1) % n] + exchange(chunks[(rank - step) % n], right, left)
    for step in range(n - 1):
        chunks[(rank - step) % n] = exchange(chunks[(rank + 1 - step) % n], right, left)
    tensor.copy_(torch.cat(chunks).view(tensor.shape))
