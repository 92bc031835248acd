"""Only the broadcast is written; the rest is to come.

check: barrier
kind: missing_function
"""

import torch
import torch.distributed as dist

DTYPES = [torch.float64, torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool]


def broadcast(tensor, src):
    n, rank = dist.get_world_size(), dist.get_rank()
    place, have = (rank - src) % n, 1
    while have < n:
        if place < have and place + have < n:
            dist.send(tensor, (rank + have) % n)
        elif have <= place < 2 * have:
            dist.recv(tensor, (rank - have) % n)
        have *= 2
