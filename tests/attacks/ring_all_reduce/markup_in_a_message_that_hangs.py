"""Deadlocks in a line full of markup: message and picture quote it.

family: injection
tries: harm
earned: 0
ends: deadlock, left_early, crash
uses: won
"""

import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    dist.recv(tensor, (rank + 1) % n) if n > 1 else "<script>"  # </text><script>alert(1)</script>
