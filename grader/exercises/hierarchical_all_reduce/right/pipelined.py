"""Cut into two segments that go through the stages one step apart: while one crosses, the other moves inside."""

import torch
import torch.distributed as dist

SEGMENTS = 2


def step(outgoing, right, incoming, left):
    return dist.irecv(incoming, left), dist.isend(outgoing, right)


def reduce_scatter(chunks, ranks, place):
    """Yields after each step's messages were posted, and goes on when they may be waited for."""
    n, right, left = len(ranks), ranks[(place + 1) % len(ranks)], ranks[place - 1]
    for i in range(1, n):
        own = chunks[(place - i - 1) % n]
        part = torch.empty_like(own)
        requests = step(chunks[(place - i) % n], right, part, left)
        yield
        for request in requests:
            request.wait()
        own += part


def all_gather(chunks, ranks, place):
    n, right, left = len(ranks), ranks[(place + 1) % len(ranks)], ranks[place - 1]
    for i in range(n - 1):
        requests = step(chunks[(place - i) % n], right, chunks[(place - i - 1) % n], left)
        yield
        for request in requests:
            request.wait()


def stages(segment, inside, local, across, node):
    shards = segment.tensor_split(len(inside))
    pieces = shards[local].tensor_split(len(across))
    yield from reduce_scatter(shards, inside, local)
    yield from reduce_scatter(pieces, across, node)
    yield from all_gather(pieces, across, node)
    yield from all_gather(shards, inside, local)


def hierarchical_all_reduce(tensor, ranks_per_node):
    k, n = ranks_per_node, dist.get_world_size()
    node, local = divmod(dist.get_rank(), k)
    inside, across = list(range(node * k, node * k + k)), list(range(local, n, k))
    flat = tensor.contiguous().view(-1)
    segments = flat.tensor_split(SEGMENTS) if flat.numel() >= 4096 else (flat,)
    waiting = [stages(segment, inside, local, across, node) for segment in segments]
    running = []
    while waiting or running:
        if waiting:
            running.append(waiting.pop(0))
        running = [each for each in running if next(each, "over") != "over"]
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))
