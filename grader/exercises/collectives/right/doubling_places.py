"""Plain loops: doubling places for the trees; rings with isend, recv and wait for the rest."""

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


def broadcast(tensor: torch.Tensor, src: int) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    place = (rank - src) % n
    step = 1
    while step < n:
        if place < step:
            if place + step < n:
                dist.send(tensor, (rank + step) % n)
        elif place < 2 * step:
            dist.recv(tensor, (rank - step) % n)
        step *= 2


def reduce(tensor: torch.Tensor, dst: int) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    place = (rank - dst) % n
    total = tensor if rank == dst else tensor.clone()
    incoming = torch.empty_like(tensor)
    for k in reversed(range((n - 1).bit_length())):
        step = 1 << k
        if place < step:
            if place + step < n:
                dist.recv(incoming, (rank + step) % n)
                total += incoming
        elif place < 2 * step:
            dist.send(total, (rank - step) % n)


def scatter(chunks: list[torch.Tensor] | None, src: int) -> torch.Tensor:
    n, rank = dist.get_world_size(), dist.get_rank()
    if rank != src:
        header = torch.empty(16, dtype=torch.int64)
        dist.recv(header, src)
        chunk = empty_from(header)
        dist.recv(chunk, src)
        return chunk
    for other in range(n):
        if other != src:
            dist.send(header_of(chunks[other]), other)
            dist.send(chunks[other], other)
    return chunks[src].clone()


def gather(tensor: torch.Tensor, dst: int) -> list[torch.Tensor] | None:
    n, rank = dist.get_world_size(), dist.get_rank()
    if rank != dst:
        dist.send(tensor, dst)
        return None
    result = []
    for other in range(n):
        if other == rank:
            result.append(tensor.clone())
        else:
            result.append(torch.empty_like(tensor))
            dist.recv(result[other], other)
    return result


def all_gather(tensor: torch.Tensor) -> list[torch.Tensor]:
    n, rank = dist.get_world_size(), dist.get_rank()
    result = [torch.empty_like(tensor) for _ in range(n)]
    result[rank].copy_(tensor)
    for step in range(n - 1):
        request = dist.isend(result[(rank - step) % n], (rank + 1) % n)
        dist.recv(result[(rank - step - 1) % n], (rank - 1) % n)
        request.wait()
    return result


def reduce_scatter(chunks: list[torch.Tensor]) -> torch.Tensor:
    n, rank = dist.get_world_size(), dist.get_rank()
    total = chunks[(rank - 1) % n].clone()
    for step in range(n - 1):
        incoming = torch.empty_like(total)
        request = dist.isend(total, (rank + 1) % n)
        dist.recv(incoming, (rank - 1) % n)
        request.wait()
        total = incoming
        total += chunks[(rank - step - 2) % n]
    return total


def all_to_all(chunks: list[torch.Tensor]) -> list[torch.Tensor]:
    n, rank = dist.get_world_size(), dist.get_rank()
    result = [chunk.clone() if index == rank else torch.empty_like(chunk) for index, chunk in enumerate(chunks)]
    for distance in range(1, n):
        request = dist.isend(chunks[(rank + distance) % n], (rank + distance) % n)
        dist.recv(result[(rank - distance) % n], (rank - distance) % n)
        request.wait()
    return result


def barrier() -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    mine, theirs = torch.zeros(1, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8)
    for k in range((n - 1).bit_length()):
        request = dist.isend(mine, (rank + (1 << k)) % n)
        dist.recv(theirs, (rank - (1 << k)) % n)
        request.wait()
