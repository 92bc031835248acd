"""Between nodes recursive halving and doubling where their number is a power of two, else a ring; a ring inside."""

import torch
import torch.distributed as dist


def swap(outgoing, to, incoming, source):
    receiving = dist.irecv(incoming, source)
    sending = dist.isend(outgoing, to)
    receiving.wait()
    sending.wait()


def ring_reduce(chunks, ranks, place):
    n = len(ranks)
    for step in range(n - 1):
        target = chunks[(place - step - 2) % n]
        part = torch.zeros_like(target)
        swap(chunks[(place - step - 1) % n], ranks[(place + 1) % n], part, ranks[place - 1])
        target += part


def ring_gather(chunks, ranks, place):
    n = len(ranks)
    for step in range(n - 1):
        swap(chunks[(place - step) % n], ranks[(place + 1) % n], chunks[(place - step - 1) % n], ranks[place - 1])


def halve_and_double(shard, ranks, place):
    """Each round exchanges half of what is left with the rank at half the distance, then all the way back."""
    undo, distance = [], len(ranks) // 2
    while distance:
        low, high = shard.tensor_split(2)
        keep, give = (high, low) if place & distance else (low, high)
        peer = ranks[place ^ distance]
        part = torch.empty_like(keep)
        swap(give, peer, part, peer)
        keep += part
        undo.append((keep, give, peer))
        shard, distance = keep, distance // 2
    for keep, give, peer in reversed(undo):
        swap(keep, peer, give, peer)


def hierarchical_all_reduce(tensor, ranks_per_node):
    rank, n = dist.get_rank(), dist.get_world_size()
    node, local = rank // ranks_per_node, rank % ranks_per_node
    nodes = n // ranks_per_node
    inside = [node * ranks_per_node + i for i in range(ranks_per_node)]
    across = [i * ranks_per_node + local for i in range(nodes)]
    work = tensor.detach().clone(memory_format=torch.contiguous_format).flatten()
    shards = work.tensor_split(ranks_per_node)

    ring_reduce(shards, inside, local)
    if nodes & (nodes - 1) == 0:
        halve_and_double(shards[local], across, node)
    else:
        pieces = shards[local].tensor_split(nodes)
        ring_reduce(pieces, across, node)
        ring_gather(pieces, across, node)
    ring_gather(shards, inside, local)
    tensor[...] = work.view(tensor.shape)
