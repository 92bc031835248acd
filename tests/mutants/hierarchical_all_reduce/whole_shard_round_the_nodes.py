"""Passes the whole shard of every node round the nodes instead of pieces of it.

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
    n, rank = dist.get_world_size(), dist.get_rank()
    node, local = divmod(rank, ranks_per_node)
    inside = range(node * ranks_per_node, (node + 1) * ranks_per_node)
    peers = range(local, n, ranks_per_node)
    flat = tensor.contiguous().view(-1)
    shards = flat.tensor_split(len(inside))
    reduce_scatter(shards, inside)
    outgoing = shards[local].clone()
    for _ in range(len(peers) - 1):
        incoming = torch.empty_like(outgoing)
        request = dist.isend(outgoing, peers[(node + 1) % len(peers)])
        dist.recv(incoming, peers[node - 1])
        request.wait()
        shards[local].add_(incoming)
        outgoing = incoming
    all_gather(shards, inside)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
