"""Sends every chunk in packets of 16 KiB, each a message of its own: the latency is paid for each.

check: speed
kind: too_slow
only: yes
"""

import torch
import torch.distributed as dist


PACKET = 2**14  # bytes


def exchange(outgoing, right, incoming, left):
    packet = PACKET // outgoing.element_size()
    requests = [dist.isend(part, right) for part in outgoing.split(packet)]
    for part in incoming.split(packet):
        dist.recv(part, left)
    for request in requests:
        request.wait()


def reduce_scatter(chunks, ranks):
    size, place = len(ranks), ranks.index(dist.get_rank())
    for step in range(1, size):
        own = chunks[(place - step - 1) % size]
        incoming = torch.empty_like(own)
        exchange(chunks[(place - step) % size], ranks[(place + 1) % size], incoming, ranks[(place - 1) % size])
        own += incoming


def all_gather(chunks, ranks):
    size, place = len(ranks), ranks.index(dist.get_rank())
    for step in range(size - 1):
        own = chunks[(place - step - 1) % size]
        exchange(chunks[(place - step) % size], ranks[(place + 1) % size], own, ranks[(place - 1) % size])


def hierarchical_all_reduce(tensor, ranks_per_node):
    n, rank = dist.get_world_size(), dist.get_rank()
    node, local = divmod(rank, ranks_per_node)
    inside = range(node * ranks_per_node, (node + 1) * ranks_per_node)
    peers = range(local, n, ranks_per_node)
    flat = tensor.contiguous().view(-1)
    shards = flat.tensor_split(len(inside))
    pieces = shards[local].tensor_split(len(peers))
    reduce_scatter(shards, inside)
    reduce_scatter(pieces, peers)
    all_gather(pieces, peers)
    all_gather(shards, inside)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
