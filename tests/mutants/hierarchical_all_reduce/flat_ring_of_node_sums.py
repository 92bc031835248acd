"""Sums up inside each node, and then runs the flat ring over all ranks: k ranks bring each node's sum.

check: sum
kind: wrong_result
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
    n, rank = dist.get_world_size(), dist.get_rank()
    node = rank // ranks_per_node
    inside = range(node * ranks_per_node, (node + 1) * ranks_per_node)
    flat = tensor.contiguous().view(-1)
    shards = flat.tensor_split(len(inside))
    chunks = flat.tensor_split(n)
    reduce_scatter(shards, inside)
    all_gather(shards, inside)
    reduce_scatter(chunks, range(n))
    all_gather(chunks, range(n))
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
