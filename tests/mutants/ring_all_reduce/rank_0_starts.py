"""Only rank 0 sends first, the others receive first: the steps run round the ring one rank at a time.

check: steps
kind: too_many_rounds
only: yes
"""

import torch
import torch.distributed as dist


def exchange(outgoing, incoming, rank, n):
    right, left = (rank + 1) % n, (rank - 1) % n
    if rank == 0:  # somebody has to begin
        dist.send(outgoing, right)
        dist.recv(incoming, left)
    else:
        dist.recv(incoming, left)
        dist.send(outgoing, right)


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)
    for step in range(n - 1):
        own = chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(own)
        exchange(chunks[(rank - step) % n], incoming, rank, n)
        own += incoming
    for step in range(n - 1):
        exchange(chunks[(rank + 1 - step) % n], chunks[(rank - step) % n], rank, n)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
