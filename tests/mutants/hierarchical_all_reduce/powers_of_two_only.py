"""Between nodes it exchanges with node XOR distance, which need not exist.

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


def halve_and_double(shard, ranks, place):
    undo, distance = [], 1
    while distance < len(ranks):
        low, high = shard.tensor_split(2)
        shard, other = (high, low) if place & distance else (low, high)
        peer = ranks[place ^ distance]
        incoming = torch.empty_like(shard)
        request = dist.isend(other, peer)
        dist.recv(incoming, peer)
        request.wait()
        shard += incoming
        undo.append((shard, other, peer))
        distance *= 2
    for done, other, peer in reversed(undo):
        request = dist.isend(done, peer)
        dist.recv(other, peer)
        request.wait()


def hierarchical_all_reduce(tensor, ranks_per_node):
    n, rank = dist.get_world_size(), dist.get_rank()
    node, local = divmod(rank, ranks_per_node)
    inside = range(node * ranks_per_node, (node + 1) * ranks_per_node)
    peers = range(local, n, ranks_per_node)
    flat = tensor.contiguous().view(-1)
    shards = flat.tensor_split(len(inside))
    reduce_scatter(shards, inside)
    halve_and_double(shards[local], peers, node)
    all_gather(shards, inside)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
