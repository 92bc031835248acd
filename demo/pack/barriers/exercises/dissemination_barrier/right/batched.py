"""Both requests of a round in one batch."""

import torch
import torch.distributed as dist


def dissemination_barrier():
    rank, n = dist.get_rank(), dist.get_world_size()
    here, there = torch.ones(1), torch.zeros(1)
    distance = 1
    while distance < n:
        send = dist.P2POp(dist.isend, here, (rank + distance) % n)
        receive = dist.P2POp(dist.irecv, there, (rank - distance) % n)
        for request in dist.batch_isend_irecv([send, receive]):
            request.wait()
        distance *= 2
