"""Takes batch_isend_irecv for a blocking call and drops its requests.

check: requests
kind: race
"""

import torch
import torch.distributed as dist


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)

    for step in range(n - 1):
        outgoing, own = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(own)
        dist.batch_isend_irecv([dist.P2POp(dist.isend, outgoing, right), dist.P2POp(dist.irecv, incoming, left)])
        own += incoming

    for step in range(n - 1):
        send = dist.P2POp(dist.isend, chunks[(rank + 1 - step) % n], right)
        dist.batch_isend_irecv([send, dist.P2POp(dist.irecv, chunks[(rank - step) % n], left)])

    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
