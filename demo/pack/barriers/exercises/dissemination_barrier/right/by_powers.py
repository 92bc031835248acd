"""A message in each of the rounds that bit_length() counts, with an empty tensor."""

import torch
import torch.distributed as dist


def dissemination_barrier():
    rank, n = dist.get_rank(), dist.get_world_size()
    for k in range((n - 1).bit_length()):
        request = dist.isend(torch.ones(1), (rank + 2**k) % n)
        dist.recv(torch.empty(1), (rank - 2**k) % n)
        request.wait()
