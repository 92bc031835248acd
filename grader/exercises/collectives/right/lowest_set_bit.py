"""Trees by the lowest set bit; receives are posted before blocking sends."""

from collections.abc import Callable

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


class Tree:
    """The binomial tree of MPICH: a place hangs under the place without its lowest set bit."""

    def __init__(self, root: int) -> None:
        n, rank = dist.get_world_size(), dist.get_rank()
        place = (rank - root) % n
        lowest = place & -place or 1 << (n - 1).bit_length()
        self.parent = None if place == 0 else (place - lowest + root) % n
        self.children = []  # the largest subtree first
        while lowest > 1:
            lowest >>= 1
            if place + lowest < n:
                self.children.append((place + lowest + root) % n)


def broadcast(tensor: torch.Tensor, src: int) -> None:
    tree = Tree(src)
    if tree.parent is not None:
        dist.recv(tensor, tree.parent)
    for child in tree.children:
        dist.send(tensor, child)


def reduce(tensor: torch.Tensor, dst: int) -> None:
    tree = Tree(dst)
    children = tree.children[::-1]  # the smallest subtree is ready first
    boxes = [torch.empty_like(tensor) for _ in children]
    requests = [dist.irecv(box, child) for box, child in zip(boxes, children)]
    total = tensor.clone()
    for box, request in zip(boxes, requests):
        request.wait()
        total.add_(box)
    if tree.parent is None:
        tensor.copy_(total)
    else:
        dist.send(total, tree.parent)


def exchange(part_for: Callable[[int], torch.Tensor]) -> torch.Tensor:
    """Row r of the result is what rank r had for this rank; everybody sends to everybody."""
    n, rank = dist.get_world_size(), dist.get_rank()
    own = part_for(rank)
    rows = own.new_empty((n, *own.shape))
    requests = [dist.irecv(rows[(rank - k) % n], (rank - k) % n) for k in range(1, n)]
    rows[rank] = own
    for k in range(1, n):
        dist.send(part_for((rank + k) % n), (rank + k) % n)
    for request in requests:
        request.wait()
    return rows


def scatter(chunks: list[torch.Tensor] | None, src: int) -> torch.Tensor:
    n, rank = dist.get_world_size(), dist.get_rank()
    if rank != src:
        header = torch.empty(16, dtype=torch.int64)
        dist.recv(header, src)
        chunk = empty_from(header)
        if chunk.numel():
            dist.recv(chunk, src)
        return chunk
    requests = []
    header = header_of(chunks[0])
    for other in sorted(set(range(n)) - {src}):
        requests.append(dist.isend(header, other))
        if chunks[other].numel():
            requests.append(dist.isend(chunks[other], other))
    for request in requests:
        request.wait()
    return chunks[src].clone()


def gather(tensor: torch.Tensor, dst: int) -> list[torch.Tensor] | None:
    n, rank = dist.get_world_size(), dist.get_rank()
    if rank != dst:
        if tensor.numel():
            dist.send(tensor, dst)
        return None
    result = [tensor.clone() for _ in range(n)]
    if tensor.numel():
        for request in [dist.irecv(result[other], other) for other in range(n) if other != dst]:
            request.wait()
    return result


def all_gather(tensor: torch.Tensor) -> list[torch.Tensor]:
    return list(exchange(lambda rank: tensor).unbind(0))


def reduce_scatter(chunks: list[torch.Tensor]) -> torch.Tensor:
    first, *rest = exchange(chunks.__getitem__).unbind(0)
    total = first.clone()
    for row in rest:
        total += row
    return total


def all_to_all(chunks: list[torch.Tensor]) -> list[torch.Tensor]:
    return list(exchange(lambda rank: chunks[rank]).unbind(0))


def barrier() -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    distances = [1 << k for k in range((n - 1).bit_length())]
    tokens = torch.zeros(len(distances) + 1, dtype=torch.int32)
    requests = [dist.irecv(tokens[k : k + 1], (rank - d) % n) for k, d in enumerate(distances)]
    for request, distance in zip(requests, distances):
        dist.send(tokens[-1:], (rank + distance) % n)
        request.wait()
