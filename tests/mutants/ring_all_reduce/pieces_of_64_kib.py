"""Cuts large chunks into pieces of 64 KiB, each a message of its own.

check: steps
kind: too_many_messages
only: yes
"""

import torch
import torch.distributed as dist


PIECE = 64 * 1024


def exchange(outgoing, right, incoming, left):
    size = PIECE // outgoing.element_size()
    requests = [dist.isend(piece, right) for piece in outgoing.split(size)]
    for piece in incoming.split(size):
        dist.recv(piece, left)
    for request in requests:
        request.wait()


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
