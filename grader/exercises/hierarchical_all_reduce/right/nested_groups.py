"""A class for a group of each level. Recursive halving where its size is a power of two, otherwise direct pairs."""

import torch
import torch.distributed as dist


class Group:
    """Some ranks and a row; after reduce_scatter each member has the sum of its own span of the row."""

    def __init__(self, ranks: list[int], row: torch.Tensor) -> None:
        self.ranks, self.row, self.size = ranks, row, len(ranks)
        self.place = ranks.index(dist.get_rank())
        self.starts = [k * row.numel() // self.size for k in range(self.size + 1)]

    def span(self, low: int, high: int) -> torch.Tensor:
        return self.row[self.starts[low] : self.starts[high]]

    @property
    def own(self) -> torch.Tensor:
        return self.span(self.place, self.place + 1)

    def swap(self, to: int, out: torch.Tensor, source: int, into: torch.Tensor) -> None:
        receiving = dist.irecv(into, self.ranks[source])
        sending = dist.isend(out, self.ranks[to])
        receiving.wait()
        sending.wait()

    def halvings(self) -> list[tuple[int, tuple[int, int], tuple[int, int]]]:
        """(partner, span to keep, span to give away), from the whole row down to one chunk."""
        low, high, result = 0, self.size, []
        while high - low > 1:
            middle = (low + high) // 2
            partner = self.place ^ (middle - low)
            halves = (low, middle), (middle, high)
            keep, give = halves if self.place < middle else halves[::-1]
            result.append((partner, keep, give))
            low, high = keep
        return result

    @property
    def power_of_two(self) -> bool:
        return self.size & (self.size - 1) == 0

    def reduce_scatter(self) -> None:
        if self.power_of_two:
            for partner, keep, give in self.halvings():
                incoming = torch.empty_like(self.span(*keep))
                self.swap(partner, self.span(*give), partner, incoming)
                self.span(*keep).add_(incoming)
            return
        incoming = torch.empty_like(self.own)
        for distance in range(1, self.size):
            to, source = (self.place + distance) % self.size, (self.place - distance) % self.size
            self.swap(to, self.span(to, to + 1), source, incoming)
            self.own.add_(incoming)

    def all_gather(self) -> None:
        if self.power_of_two:
            for partner, keep, give in reversed(self.halvings()):
                self.swap(partner, self.span(*keep), partner, self.span(*give))
            return
        for distance in range(1, self.size):
            to, source = (self.place + distance) % self.size, (self.place - distance) % self.size
            self.swap(to, self.own, source, self.span(source, source + 1))


def all_reduce(row: torch.Tensor, levels: list[list[int]]) -> None:
    """Innermost level first; each level hands its own span to the next one."""
    if levels:
        group = Group(levels[0], row)
        group.reduce_scatter()
        all_reduce(group.own, levels[1:])
        group.all_gather()


def hierarchical_all_reduce(tensor: torch.Tensor, ranks_per_node: int) -> None:
    ranks = range(dist.get_world_size())
    node, local = divmod(dist.get_rank(), ranks_per_node)
    levels = [
        [rank for rank in ranks if rank // ranks_per_node == node],
        [rank for rank in ranks if rank % ranks_per_node == local],
    ]
    row = tensor.reshape(-1).clone(memory_format=torch.contiguous_format)
    all_reduce(row, levels)
    tensor.copy_(row.view(tensor.shape))
