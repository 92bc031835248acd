"""Blocking calls only: in each step even places send first and odd ones receive first; empty chunks are not sent."""

import torch
import torch.distributed as dist


def move(outgoing, to, incoming, source, send_first):
    def send():
        if outgoing.numel():
            dist.send(outgoing, to)

    def receive():
        if incoming.numel():
            dist.recv(incoming, source)

    for act in (send, receive) if send_first else (receive, send):
        act()


def ring(chunks, ranks, reduce):
    n, place = len(ranks), ranks.index(dist.get_rank())
    for step in range(n - 1):
        at = place - step - (1 if reduce else 0)
        outgoing, target = chunks[at % n], chunks[(at - 1) % n]
        part = torch.empty_like(target)
        move(outgoing, ranks[(place + 1) % n], part, ranks[(place - 1) % n], place % 2 == 0)
        if reduce:
            target += part
        else:
            target[:] = part


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, n = dist.get_rank(), dist.get_world_size()
    start = rank // ranks_per_node * ranks_per_node
    inside = range(start, start + ranks_per_node)
    across = range(rank - start, n, ranks_per_node)
    flat = tensor.reshape(-1).clone()
    shards = flat.tensor_split(ranks_per_node)
    pieces = shards[rank - start].tensor_split(len(across))
    ring(shards, inside, reduce=True)
    ring(pieces, across, reduce=True)
    ring(pieces, across, reduce=False)
    ring(shards, inside, reduce=False)
    tensor.copy_(flat.reshape(tensor.shape))
