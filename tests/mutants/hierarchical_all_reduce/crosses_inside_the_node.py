"""The ring inside a node does not close: its last rank sends to the first of the next node.

check: crossing
kind: too_many_bytes
"""

import torch
import torch.distributed as dist


def reduce_scatter(chunks, place, right, left):
    size = len(chunks)
    for step in range(1, size):
        own = chunks[(place - step - 1) % size]
        incoming = torch.empty_like(own)
        request = dist.isend(chunks[(place - step) % size], right)
        dist.recv(incoming, left)
        request.wait()
        own += incoming


def all_gather(chunks, place, right, left):
    size = len(chunks)
    for step in range(size - 1):
        request = dist.isend(chunks[(place - step) % size], right)
        dist.recv(chunks[(place - step - 1) % size], left)
        request.wait()


def hierarchical_all_reduce(tensor, ranks_per_node):
    n, rank = dist.get_world_size(), dist.get_rank()
    node, local = divmod(rank, ranks_per_node)
    next_rank, rank_before = (rank + 1) % n, (rank - 1) % n
    next_peer, peer_before = (rank + ranks_per_node) % n, (rank - ranks_per_node) % n
    flat = tensor.contiguous().view(-1)
    shards = flat.tensor_split(ranks_per_node)
    pieces = shards[local].tensor_split(n // ranks_per_node)
    reduce_scatter(shards, local, next_rank, rank_before)
    reduce_scatter(pieces, node, next_peer, peer_before)
    all_gather(pieces, node, next_peer, peer_before)
    all_gather(shards, local, next_rank, rank_before)
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
