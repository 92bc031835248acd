"""Takes rank and world size as arguments.

check: sum
kind: missing_function
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor, rank, world_size):
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    incoming = torch.empty_like(tensor)
    for _ in range(world_size - 1):
        request = dist.isend(tensor, right)
        dist.recv(incoming, left)
        request.wait()
