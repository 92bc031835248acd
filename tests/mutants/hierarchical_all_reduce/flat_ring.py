"""The flat ring over all ranks, which does not look at nodes.

check: crossing
kind: too_many_bytes
"""

import torch
import torch.distributed as dist


def reduce_scatter(chunks, ranks):
    size, place = len(ranks), ranks.index(dist.get_rank())
    for step in range(1, size):
        own = chunks[(place - step - 1) % size]
        incoming = torch.empty_like(own)
        request = dist.isend(chunks[(place - step) % size], ranks[(place + 1) % size])
        dist.recv(incoming, ranks[(place - 1) % size])
        request.wait()
        own += incoming


def all_gather(chunks, ranks):
    size, place = len(ranks), ranks.index(dist.get_rank())
    for step in range(size - 1):
        request = dist.isend(chunks[(place - step) % size], ranks[(place + 1) % size])
        dist.recv(chunks[(place - step - 1) % size], ranks[(place - 1) % size])
        request.wait()


def hierarchical_all_reduce(tensor, ranks_per_node):
    everyone = range(dist.get_world_size())
    flat = tensor.contiguous().view(-1)
    chunks = flat.tensor_split(len(everyone))
    reduce_scatter(chunks, everyone)
    all_gather(chunks, everyone)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
