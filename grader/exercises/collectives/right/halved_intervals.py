"""Trees halve an interval of places, also for scatter and gather, in packs; all_gather as in Bruck."""

from collections.abc import Iterator

import torch
import torch.distributed as dist

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip


def header_of(tensor: torch.Tensor) -> torch.Tensor:
    """Dtype and shape as 16 numbers, 128 bytes: what a rank must know before it can receive the tensor."""
    numbers = [DTYPES.index(tensor.dtype), tensor.dim(), *tensor.shape]
    return torch.tensor(numbers + [0] * (16 - len(numbers)), dtype=torch.int64)


def empty_from(header: torch.Tensor) -> torch.Tensor:
    """A new tensor of the dtype and shape that `header` tells."""
    dtype, dimensions, *sizes = header.tolist()
    return torch.empty(sizes[:dimensions], dtype=DTYPES[dtype])


def halvings(place: int, n: int) -> Iterator[tuple[str, int, int]]:
    """What this place does, first round first: ("give", middle, high) or ("take", low, high).

    The first place of an interval gives the upper half to its first place, then both go on with their half.
    """
    low, high = 0, n
    while high - low > 1:
        middle = (low + high + 1) // 2
        if place < middle:
            if place == low:
                yield "give", middle, high
            high = middle
        else:
            if place == middle:
                yield "take", low, high
            low = middle


def where() -> tuple[int, int]:
    return dist.get_rank(), dist.get_world_size()


def broadcast(tensor: torch.Tensor, src: int) -> None:
    rank, n = where()
    for what, other, _ in halvings((rank - src) % n, n):
        if what == "give":
            dist.send(tensor, (other + src) % n)
        else:
            dist.recv(tensor, (other + src) % n)


def reduce(tensor: torch.Tensor, dst: int) -> None:
    rank, n = where()
    total = tensor
    for what, other, _ in reversed(list(halvings((rank - dst) % n, n))):
        peer = (other + dst) % n
        if what == "take":
            dist.send(total, peer)
        else:
            incoming = torch.empty_like(tensor)
            dist.recv(incoming, peer)
            total = incoming.add_(total)
    if rank == dst and total is not tensor:
        tensor.copy_(total)


def scatter(chunks: list[torch.Tensor] | None, src: int) -> torch.Tensor:
    rank, n = where()
    place = (rank - src) % n
    pack = header = None
    if rank == src:
        header = header_of(chunks[0])
        pack = torch.stack([chunks[(src + p) % n] for p in range(n)])
    for what, other, high in halvings(place, n):
        peer = (other + src) % n
        if what == "take":
            header = torch.empty(16, dtype=torch.int64)
            dist.recv(header, peer)
            chunk = empty_from(header)
            pack = chunk.new_empty((high - place, *chunk.shape))
            dist.recv(pack, peer)
        else:
            dist.send(header, peer)
            dist.send(pack[other - place : high - place], peer)
    return pack[0].clone()


def gather(tensor: torch.Tensor, dst: int) -> list[torch.Tensor] | None:
    rank, n = where()
    place = (rank - dst) % n
    path = list(halvings(place, n))
    end = next((high for what, _, high in path if what == "take"), n)
    pack = tensor.new_empty((end - place, *tensor.shape))
    pack[0].copy_(tensor)
    for what, other, high in reversed(path):
        peer = (other + dst) % n
        if what == "give":
            dist.recv(pack[other - place : high - place], peer)
        else:
            dist.send(pack, peer)
    if rank != dst:
        return None
    return [pack[(r - dst) % n].clone() for r in range(n)]


def all_gather(tensor: torch.Tensor) -> list[torch.Tensor]:
    rank, n = where()
    rows = tensor.new_empty((n, *tensor.shape))  # row i is the tensor of rank + i
    rows[0].copy_(tensor)
    have = 1
    while have < n:
        count = min(have, n - have)
        request = dist.isend(rows[:count], (rank - have) % n)
        dist.recv(rows[have : have + count], (rank + have) % n)
        request.wait()
        have += count
    return [rows[(r - rank) % n].clone() for r in range(n)]


def all_to_all(chunks: list[torch.Tensor]) -> list[torch.Tensor]:
    rank, n = where()
    requests, arrived = [], {rank: chunks[rank].clone()}
    for peer in range(n):
        if peer != rank:
            requests.append(dist.isend(chunks[peer], peer))
    for peer in range(n):
        if peer != rank:
            arrived[peer] = torch.empty_like(chunks[rank])
            dist.recv(arrived[peer], peer)
    for request in requests:
        request.wait()
    return [arrived[peer] for peer in range(n)]


def reduce_scatter(chunks: list[torch.Tensor]) -> torch.Tensor:
    first, *others = all_to_all(chunks)
    for other in others:
        first += other
    return first


def barrier() -> None:
    rank, n = where()
    heard = 1  # from how many ranks, this one included
    while heard < n:
        token = torch.tensor([heard])
        request = dist.isend(token, (rank + heard) % n)
        dist.recv(torch.empty_like(token), (rank - heard) % n)
        request.wait()
        heard *= 2
