"""A class; the direct names of torch.distributed; sends of a stage are waited for when the stage is over."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed import get_rank, get_world_size, irecv, isend


@dataclass
class Ring:
    ranks: list[int]

    @property
    def place(self) -> int:
        return self.ranks.index(get_rank())

    def chunk(self, step: int) -> int:
        return (self.place - step) % len(self.ranks)

    def around(self, chunks: tuple[Tensor, ...], start: int, buffers: list[Tensor] | None) -> None:
        """len - 1 steps; chunks are received into `buffers` and added, or where there are none, in place."""
        size, sends = len(self.ranks), []
        for step in range(start, start + size - 1):
            target = chunks[self.chunk(step + 1)]
            into = buffers[self.chunk(step + 1)] if buffers else target
            sends.append(isend(chunks[self.chunk(step)], dst=self.ranks[(self.place + 1) % size]))
            irecv(into, src=self.ranks[self.place - 1]).wait()
            if buffers:
                target += into
        for send in sends:
            send.wait()

    def reduce_scatter(self, chunks: tuple[Tensor, ...]) -> None:
        self.around(chunks, 1, [torch.empty_like(chunk) for chunk in chunks])

    def all_gather(self, chunks: tuple[Tensor, ...]) -> None:
        self.around(chunks, 0, None)


def hierarchical_all_reduce(tensor: Tensor, ranks_per_node: int) -> Tensor:
    rank, world = get_rank(), get_world_size()
    if world == 1 or tensor.numel() == 0:
        return tensor
    first = rank - rank % ranks_per_node
    node = Ring(list(range(first, first + ranks_per_node)))
    peers = Ring([other for other in range(world) if (other - rank) % ranks_per_node == 0])
    flat = tensor.contiguous().view(-1)
    shards = flat.tensor_split(ranks_per_node)
    own = shards[rank - first].tensor_split(world // ranks_per_node)
    node.reduce_scatter(shards)
    peers.reduce_scatter(own)
    peers.all_gather(own)
    node.all_gather(shards)
    if flat.data_ptr() != tensor.data_ptr():
        tensor.copy_(flat.view(tensor.shape))
    return tensor
