"""Two ring functions over a list of ranks, called four times on views of the flat tensor."""

import torch
import torch.distributed as dist


def ring_step(ranks: list[int], place: int, out: torch.Tensor, into: torch.Tensor) -> None:
    request = dist.isend(out, ranks[(place + 1) % len(ranks)])
    dist.recv(into, ranks[(place - 1) % len(ranks)])
    request.wait()


def reduce_scatter(ranks: list[int], chunks: list[torch.Tensor]) -> None:
    """Afterwards chunk p is the sum over `ranks` on the rank at place p."""
    size, place = len(ranks), ranks.index(dist.get_rank())
    for step in range(1, size):
        target = chunks[(place - step - 1) % size]
        incoming = torch.empty_like(target)
        ring_step(ranks, place, chunks[(place - step) % size], incoming)
        target += incoming


def all_gather(ranks: list[int], chunks: list[torch.Tensor]) -> None:
    """Afterwards every rank has chunk p of the rank at place p."""
    size, place = len(ranks), ranks.index(dist.get_rank())
    for step in range(size - 1):
        ring_step(ranks, place, chunks[(place - step) % size], chunks[(place - step - 1) % size])


def hierarchical_all_reduce(tensor: torch.Tensor, ranks_per_node: int) -> None:
    n = dist.get_world_size()
    node, local = divmod(dist.get_rank(), ranks_per_node)
    together = list(range(node * ranks_per_node, (node + 1) * ranks_per_node))
    peers = list(range(local, n, ranks_per_node))

    flat = tensor.contiguous().view(-1)
    shards = flat.tensor_split(ranks_per_node)
    pieces = shards[local].tensor_split(len(peers))

    reduce_scatter(together, shards)
    reduce_scatter(peers, pieces)
    all_gather(peers, pieces)
    all_gather(together, shards)

    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
