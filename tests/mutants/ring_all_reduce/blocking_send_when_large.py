"""Large chunks are sent with a blocking send before the receive, as if only small ones could hang.

check: large
kind: deadlock
only: yes
"""

import torch
import torch.distributed as dist


SMALL = 16 * 1024  # bytes: above that a second copy in flight seemed a waste


def exchange(outgoing, right, incoming, left):
    if outgoing.numel() * outgoing.element_size() <= SMALL:
        request = dist.isend(outgoing, right)
        dist.recv(incoming, left)
        request.wait()
    else:
        dist.send(outgoing, right)
        dist.recv(incoming, left)


def ring_all_reduce(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(n)
    for step in range(n - 1):
        own = chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(own)
        exchange(chunks[(rank - step) % n], right, incoming, left)
        own += incoming
    for step in range(n - 1):
        exchange(chunks[(rank + 1 - step) % n], right, chunks[(rank - step) % n], left)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
