"""No rings: inside a node and between nodes every rank sends each of the others its chunk at once, in one batch."""

import torch
import torch.distributed as dist


def exchange(outgoing, incoming):
    """Send and receive (rank, tensor) pairs, all at the same time."""
    operations = [dist.P2POp(dist.irecv, chunk, peer) for peer, chunk in incoming]
    operations += [dist.P2POp(dist.isend, chunk, peer) for peer, chunk in outgoing]
    for request in dist.batch_isend_irecv(operations) if operations else []:
        request.wait()


def reduce_scatter(chunks, ranks, me):
    mine = chunks[ranks.index(me)]
    parts = [(peer, torch.empty_like(mine)) for peer in ranks if peer != me]
    exchange([(peer, chunk) for peer, chunk in zip(ranks, chunks, strict=True) if peer != me], parts)
    for _, part in parts:
        mine.add_(part)


def all_gather(chunks, ranks, me):
    mine = chunks[ranks.index(me)]
    others = [(peer, chunk) for peer, chunk in zip(ranks, chunks, strict=True) if peer != me]
    exchange([(peer, mine) for peer, _ in others], others)


def hierarchical_all_reduce(tensor, ranks_per_node):
    me, n = dist.get_rank(), dist.get_world_size()
    neighbours = [rank for rank in range(n) if rank // ranks_per_node == me // ranks_per_node]
    peers = [rank for rank in range(n) if rank % ranks_per_node == me % ranks_per_node]
    flat = tensor.reshape(-1).contiguous()
    shards = torch.tensor_split(flat, ranks_per_node)
    pieces = torch.tensor_split(shards[me % ranks_per_node], len(peers))
    for work, chunks, ranks in (
        (reduce_scatter, shards, neighbours),
        (reduce_scatter, pieces, peers),
        (all_gather, pieces, peers),
        (all_gather, shards, neighbours),
    ):
        work(chunks, ranks, me)
    tensor.copy_(flat.view_as(tensor))
