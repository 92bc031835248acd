"""Everything is lists of (peer, tensor), which one function hands to batch_isend_irecv."""

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


Mail = list[tuple[int, torch.Tensor]]


def swap(out: Mail, into: Mail) -> None:
    """All these messages at once; returns when they are done."""
    operations = [dist.P2POp(dist.irecv, tensor, peer) for peer, tensor in into]
    operations += [dist.P2POp(dist.isend, tensor, peer) for peer, tensor in out]
    if operations:
        for work in dist.batch_isend_irecv(operations):
            work.wait()


def tree_rounds(root: int) -> list[tuple[list[int], list[int]]]:
    """For each round down the tree: (to whom this rank sends, from whom it receives), at most one of each."""
    n, rank = dist.get_world_size(), dist.get_rank()
    place = (rank - root) % n
    rounds = []
    for k in range((n - 1).bit_length()):
        step = 2**k
        sends = place < step and place + step < n
        receives = step <= place < 2 * step
        rounds.append(([(rank + step) % n] if sends else [], [(rank - step) % n] if receives else []))
    return rounds


def others() -> list[int]:
    """All other ranks, the next one first."""
    n, rank = dist.get_world_size(), dist.get_rank()
    return [(rank + k) % n for k in range(1, n)]


def broadcast(tensor: torch.Tensor, src: int) -> None:
    for to, source in tree_rounds(src):
        swap([(peer, tensor) for peer in to], [(peer, tensor) for peer in source])


def reduce(tensor: torch.Tensor, dst: int) -> None:
    total = tensor.clone()
    for children, parent in reversed(tree_rounds(dst)):
        incoming = [(child, torch.empty_like(tensor)) for child in children]
        swap([(peer, total) for peer in parent], incoming)
        for _, part in incoming:
            total = total + part
    if dist.get_rank() == dst:
        tensor.copy_(total)


def scatter(chunks: list[torch.Tensor] | None, src: int) -> torch.Tensor:
    if dist.get_rank() == src:
        swap([(peer, header_of(chunks[peer])) for peer in others()], [])
        swap([(peer, chunks[peer]) for peer in others()], [])
        return chunks[src].clone()
    header = torch.zeros(16, dtype=torch.int64)
    swap([], [(src, header)])
    chunk = empty_from(header)
    swap([], [(src, chunk)])
    return chunk


def gather(tensor: torch.Tensor, dst: int) -> list[torch.Tensor] | None:
    if dist.get_rank() != dst:
        swap([(dst, tensor)], [])
        return None
    result = [tensor.clone() for _ in range(dist.get_world_size())]
    swap([], [(peer, result[peer]) for peer in others()])
    return result


def all_gather(tensor: torch.Tensor) -> list[torch.Tensor]:
    result = [tensor.clone() for _ in range(dist.get_world_size())]
    swap([(peer, tensor) for peer in others()], [(peer, result[peer]) for peer in reversed(others())])
    return result


def all_to_all(chunks: list[torch.Tensor]) -> list[torch.Tensor]:
    result = [chunks[dist.get_rank()].clone() for _ in chunks]
    swap([(peer, chunks[peer]) for peer in others()], [(peer, result[peer]) for peer in reversed(others())])
    return result


def reduce_scatter(chunks: list[torch.Tensor]) -> torch.Tensor:
    parts = all_to_all(chunks)
    return torch.stack(parts).sum(0, dtype=parts[0].dtype)


def barrier() -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    step = 1
    while step < n:
        swap([((rank + step) % n, torch.ones(1))], [((rank - step) % n, torch.zeros(1))])
        step <<= 1
