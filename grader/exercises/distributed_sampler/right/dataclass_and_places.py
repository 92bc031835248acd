"""A dataclass that works out its places of the deck, and yields them one by one."""

from __future__ import annotations
from dataclasses import dataclass, field
import torch


@dataclass
class ShardedSampler:
    """A lazy generator over tensor arithmetic."""

    dataset_size: int
    num_replicas: int
    rank: int
    shuffle: bool = True
    seed: int = 0
    drop_last: bool = False
    _epoch: int = field(default=0, init=False, repr=False)

    def set_epoch(self, epoch):
        self._epoch = epoch
        return self

    def __len__(self):
        return (self.dataset_size + (0 if self.drop_last else self.num_replicas - 1)) // self.num_replicas

    def __iter__(self):
        n = self.dataset_size
        deck = torch.randperm(n, generator=torch.Generator().manual_seed(self.seed + self._epoch)) if self.shuffle else torch.arange(n)
        place = torch.arange(len(self), dtype=torch.int64) * self.num_replicas + self.rank
        for index in deck[place % n]:
            yield int(index)
