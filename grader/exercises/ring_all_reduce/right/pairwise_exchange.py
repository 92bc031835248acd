"""No ring: in step s every rank swaps with the ranks at distance s, both for the reduce-scatter and the all-gather."""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    flat = tensor.reshape(-1).clone()
    chunks = flat.tensor_split(n)
    mine = chunks[rank]
    total = mine.clone()
    incoming = torch.empty_like(mine)
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        request = dist.isend(chunks[to], to)
        dist.recv(incoming, source)
        request.wait()
        total += incoming
    mine.copy_(total)
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        request = dist.isend(mine, to)
        dist.recv(chunks[source], source)
        request.wait()
    tensor.copy_(flat.view(tensor.shape))
