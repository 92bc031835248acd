"""Bruck's all-gather in few rounds, trees of decreasing distance, empty tokens, a tag for each function."""

import json

import torch
import torch.distributed as dist
from torch.distributed import get_rank, get_world_size, irecv, isend, recv, send

BROADCAST, REDUCE, SCATTER, GATHER, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BARRIER = range(8)


def top_bit(n):
    return 1 << max((n - 1).bit_length() - 1, 0)


def broadcast(tensor, src):
    """From far to near: the root first serves the place half-way round, which serves its own half."""
    n, rank = get_world_size(), get_rank()
    place, distance = (rank - src) % n, top_bit(n)
    while distance and n > 1:
        if place % (2 * distance) == 0 and place + distance < n:
            send(tensor, (rank + distance) % n, tag=BROADCAST)
        elif place % (2 * distance) == distance:
            recv(tensor, (rank - distance) % n, tag=BROADCAST)
        distance //= 2


def reduce(tensor, dst):
    n, rank = get_world_size(), get_rank()
    place = (rank - dst) % n
    bits = [1 << k for k in range((n - 1).bit_length())]
    parent_bit = next((bit for bit in bits if place & bit), None)
    children = [bit for bit in bits if (parent_bit is None or bit < parent_bit) and place + bit < n]
    parts = [torch.empty_like(tensor) for _ in children]
    requests = [irecv(part, (rank + bit) % n, tag=REDUCE) for part, bit in zip(parts, children)]
    total = tensor if rank == dst else tensor.clone()
    for request, part in zip(requests, parts):
        request.wait()
        total += part
    if parent_bit:
        send(total, (rank - parent_bit) % n, tag=REDUCE)


def scatter(chunks, src):
    n, rank = get_world_size(), get_rank()
    if rank == src:
        about = json.dumps([str(chunks[0].dtype).split(".")[1], list(chunks[0].shape)]).encode()
        header = torch.tensor(list(about), dtype=torch.uint8)
        length = torch.tensor([len(header)])
        for peer in range(n):
            if peer != rank:
                send(length, peer, tag=SCATTER)
                send(header, peer, tag=SCATTER)
                send(chunks[peer], peer, tag=SCATTER)
        return chunks[rank]
    length = torch.empty(1, dtype=torch.int64)
    recv(length, src, tag=SCATTER)
    header = torch.empty(int(length), dtype=torch.uint8)
    recv(header, src, tag=SCATTER)
    dtype, shape = json.loads(bytes(header.tolist()))
    chunk = torch.empty(shape, dtype=getattr(torch, dtype))
    recv(chunk, src, tag=SCATTER)
    return chunk


def gather(tensor, dst):
    n, rank = get_world_size(), get_rank()
    if rank == dst:
        parts = {rank: tensor.clone()}
        for shift in range(1, n):
            peer = (rank + shift) % n
            parts[peer] = torch.empty_like(tensor)
            recv(parts[peer], peer, tag=GATHER)
        return [parts[peer] for peer in range(n)]
    send(tensor, dst, tag=GATHER)


def all_gather(tensor):
    """After each round a rank holds the tensors of twice as many ranks, those from its own on (Bruck et al. 1997)."""
    n, rank = get_world_size(), get_rank()
    block = tensor.clone().unsqueeze(0)
    while len(block) < n:
        have = len(block)
        more = torch.empty((min(have, n - have), *tensor.shape), dtype=tensor.dtype)
        request = isend(block[: len(more)].contiguous(), (rank - have) % n, tag=ALL_GATHER)
        recv(more, (rank + have) % n, tag=ALL_GATHER)
        request.wait()
        block = torch.cat((block, more))
    return [block[(peer - rank) % n] for peer in range(n)]


def reduce_scatter(chunks):
    """One small reduce for each rank, with that rank as the root."""
    n, rank = get_world_size(), get_rank()
    own = [chunk.clone() for chunk in chunks]
    for root, chunk in enumerate(own):
        reduce(chunk, root)
    return own[rank]


def all_to_all(chunks):
    """One scatter after the other, without headers: shapes are known. A dict of what came in."""
    n, rank = get_world_size(), get_rank()
    came = {}
    for source in range(n):
        if source == rank:
            came[source] = chunks[rank].clone()
            requests = [isend(chunks[peer], peer, tag=ALL_TO_ALL) for peer in range(n) if peer != rank]
            [request.wait() for request in requests]
        else:
            came[source] = torch.empty_like(chunks[rank])
            recv(came[source], source, tag=ALL_TO_ALL)
    return [came[peer] for peer in sorted(came)]


def barrier():
    n, rank = get_world_size(), get_rank()
    for k in range((n - 1).bit_length()):
        incoming = irecv(torch.empty(0), (rank + 2**k) % n, tag=BARRIER + k)
        outgoing = isend(torch.empty(0), (rank - 2**k) % n, tag=BARRIER + k)
        incoming.wait()
        outgoing.wait()
