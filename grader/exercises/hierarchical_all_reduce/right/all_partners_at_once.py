"""No rings: in every stage all partners are addressed at once, and sums are taken in rank order."""

from functools import reduce

import torch
import torch.distributed as dist


def run(operations: list) -> None:
    if operations:
        for work in dist.batch_isend_irecv(operations):
            work.wait()


def sum_my_chunk(group: range, chunks: list[torch.Tensor]) -> torch.Tensor:
    """Each rank sends chunk k to the k-th of the group; returns the sum of what all have for this rank."""
    me = group.index(dist.get_rank())
    arrived = [chunks[me] if k == me else torch.empty_like(chunks[me]) for k in range(len(group))]
    operations = []
    for distance in range(1, len(group)):
        to, source = (me + distance) % len(group), (me - distance) % len(group)
        operations.append(dist.P2POp(dist.isend, chunks[to], group[to]))
        operations.append(dist.P2POp(dist.irecv, arrived[source], group[source]))
    run(operations)
    return reduce(torch.add, arrived)


def collect(group: range, mine: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Every rank's part, one after the other in one row."""
    me = group.index(dist.get_rank())
    parts = [mine if k == me else mine.new_empty(size) for k, size in enumerate(sizes)]
    operations = []
    for distance in range(1, len(group)):
        to, source = (me + distance) % len(group), (me - distance) % len(group)
        operations.append(dist.P2POp(dist.isend, mine, group[to]))
        operations.append(dist.P2POp(dist.irecv, parts[source], group[source]))
    run(operations)
    return torch.cat(parts)


def sizes_of(parts: list[torch.Tensor]) -> list[int]:
    return [part.numel() for part in parts]


def hierarchical_all_reduce(tensor: torch.Tensor, ranks_per_node: int) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    first = rank - rank % ranks_per_node
    inside, across = range(first, first + ranks_per_node), range(rank % ranks_per_node, n, ranks_per_node)

    shards = tensor.contiguous().view(-1).tensor_split(len(inside))
    shard = sum_my_chunk(inside, shards)
    pieces = shard.tensor_split(len(across))
    piece = sum_my_chunk(across, pieces)
    shard = collect(across, piece, sizes_of(pieces))
    whole = collect(inside, shard, sizes_of(shards))
    tensor.copy_(whole.view(tensor.shape))
