"""Recursive halving and doubling where N is a power of two, otherwise a ring of batched operations."""

import torch
import torch.distributed as dist


class Pieces:
    """A row cut into n chunks; a range of neighbouring chunks is one slice."""

    def __init__(self, row: torch.Tensor, n: int) -> None:
        self.row = row
        self.starts = [k * row.numel() // n for k in range(n + 1)]

    def __getitem__(self, span: tuple[int, int]) -> torch.Tensor:
        return self.row[self.starts[span[0]] : self.starts[span[1]]]


def trade(out: torch.Tensor, to: int, into: torch.Tensor, source: int) -> None:
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, out, to), dist.P2POp(dist.irecv, into, source)])
    for work in works:
        work.wait()


def halving_doubling(pieces: Pieces, rank: int, n: int) -> None:
    low, high, trail = 0, n, []
    while high - low > 1:
        middle = (low + high) // 2
        half = middle - low
        if rank < middle:
            peer, keep, give = rank + half, (low, middle), (middle, high)
        else:
            peer, keep, give = rank - half, (middle, high), (low, middle)
        incoming = torch.empty_like(pieces[keep])
        trade(pieces[give], peer, incoming, peer)
        pieces[keep].add_(incoming)
        trail.append((peer, keep, give))
        low, high = keep
    for peer, keep, give in reversed(trail):
        trade(pieces[keep], peer, pieces[give], peer)


def ring(pieces: Pieces, rank: int, n: int) -> None:
    def piece(index: int) -> torch.Tensor:
        index %= n
        return pieces[index, index + 1]

    right, left = (rank + 1) % n, (rank - 1) % n
    for step in range(n - 1):
        incoming = torch.empty_like(piece(rank - step - 1))
        trade(piece(rank - step), right, incoming, left)
        piece(rank - step - 1).add_(incoming)
    for step in range(n - 1):
        trade(piece(rank + 1 - step), right, piece(rank - step), left)


def ring_all_reduce(tensor: torch.Tensor) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    row = tensor.contiguous().view(-1)
    if n & (n - 1) == 0:
        halving_doubling(Pieces(row, n), rank, n)
    else:
        ring(Pieces(row, n), rank, n)
    if not tensor.is_contiguous():
        tensor.copy_(row.view(tensor.shape))
