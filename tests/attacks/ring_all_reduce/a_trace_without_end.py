"""Exchanges empty messages for as long as it may: each is some objects of the grading process, and a line in a picture.

family: bombs
tries: harm
earned: 0
ends: any
uses: won
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    nothing = torch.zeros(0)
    while True:
        request = dist.isend(nothing, (rank + 1) % n)
        dist.recv(nothing, (rank - 1) % n)
        request.wait()
