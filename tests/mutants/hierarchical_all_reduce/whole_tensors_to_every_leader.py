"""Every rank sends its whole tensor to the leader of each node, who adds up and hands out the sum.

check: crossing
kind: too_many_bytes
"""

import torch
import torch.distributed as dist


def hierarchical_all_reduce(tensor, ranks_per_node):
    n, rank = dist.get_world_size(), dist.get_rank()
    leader = rank - rank % ranks_per_node
    flat = tensor.contiguous().view(-1)
    requests = [dist.isend(flat, other) for other in range(0, n, ranks_per_node) if other != rank]
    total = flat.clone()
    if rank == leader:
        incoming = torch.empty_like(flat)
        for other in range(n):
            if other != rank:
                dist.recv(incoming, other)
                total += incoming
        requests += [dist.isend(total, leader + i) for i in range(1, ranks_per_node)]
    else:
        dist.recv(total, leader)
    for request in requests:
        request.wait()
    tensor.copy_(total.view(tensor.shape))
