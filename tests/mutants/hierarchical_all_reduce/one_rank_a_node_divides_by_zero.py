"""Numbers shards from 1 to ranks_per_node - 1, and there is none with one rank a node.

check: sum
kind: crash
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
    share = tensor.numel() // (ranks_per_node - 1)  # the first rank of a node leads and holds no shard
    flat = tensor.contiguous().view(-1)
    shards = (flat[:0], *(flat[i * share : (i + 1) * share] for i in range(ranks_per_node - 1)))
    pieces = shards[local].tensor_split(len(peers))
    reduce_scatter(shards, inside)
    reduce_scatter(pieces, peers)
    all_gather(pieces, peers)
    all_gather(shards, inside)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
