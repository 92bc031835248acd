"""batch_isend_irecv in every step, receives listed first."""

import torch
import torch.distributed as dist


def swap(outgoing, right, incoming, left):
    operations = [dist.P2POp(dist.irecv, incoming, left), dist.P2POp(dist.isend, outgoing, right)]
    for request in dist.batch_isend_irecv(operations):
        request.wait()


@torch.no_grad()
def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    chunks = [part.clone() for part in tensor.flatten().tensor_split(n)]
    for step in range(n - 1):
        incoming = torch.zeros_like(chunks[rank - step - 1])
        swap(chunks[rank - step], (rank + 1) % n, incoming, (rank - 1) % n)
        chunks[rank - step - 1] += incoming
    for step in range(n - 1):
        swap(chunks[(rank - step + 1) % n], (rank + 1) % n, chunks[rank - step], (rank - 1) % n)
    tensor.copy_(torch.cat(chunks).reshape(tensor.shape))
