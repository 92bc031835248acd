"""An iterator object for each pass, which holds its order and walks it by steps."""

import math
from collections.abc import Iterator, Sequence

import torch


class _Pass:
    """One pass of one rank. It keeps its order, whatever the sampler is told in the meantime."""

    def __init__(self, order: Sequence[int], first: int, step: int, count: int) -> None:
        self._order = order
        self._place = first
        self._step = step
        self._left = count

    def __iter__(self) -> "_Pass":
        return self

    def __next__(self) -> int:
        if self._left == 0:
            raise StopIteration
        self._left -= 1
        index = self._order[self._place % len(self._order)]
        self._place += self._step
        return index


def _order(size: int, shuffle: bool, seed: int) -> Sequence[int]:
    if not shuffle:
        return range(size)
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed)).tolist()


class ShardedSampler:
    def __init__(
        self,
        dataset_size: int,
        num_replicas: int,
        rank: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.size, self.replicas, self.rank = dataset_size, num_replicas, rank
        self.shuffle, self.seed, self.epoch = shuffle, seed, 0
        share = dataset_size / num_replicas
        self.count = math.floor(share) if drop_last else math.ceil(share)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        return _Pass(_order(self.size, self.shuffle, self.seed + self.epoch), self.rank, self.replicas, self.count)
