"""Calls its function by another name.

check: sum
kind: missing_function
"""

import torch
import torch.distributed as dist


def ringAllReduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    request = dist.isend(tensor, (rank + 1) % n)
    request.wait()
