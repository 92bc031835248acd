"""A dataclass on torch's Sampler: the padded order is a table of rounds x replicas, a rank is a column."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch.utils.data import Sampler


@dataclass(eq=False)
class ShardedSampler(Sampler):
    dataset_size: int
    num_replicas: int
    rank: int
    shuffle: bool = True
    seed: int = 0
    drop_last: bool = False
    epoch: int = field(default=0, init=False)

    @property
    def rounds(self) -> int:
        whole, rest = divmod(self.dataset_size, self.num_replicas)
        return whole if self.drop_last or rest == 0 else whole + 1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.rounds

    def table(self) -> torch.Tensor:
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = torch.randperm(self.dataset_size, generator=generator)
        else:
            order = torch.arange(self.dataset_size)
        total = self.rounds * self.num_replicas
        if total > self.dataset_size:
            order = order.repeat(-(-total // self.dataset_size))
        return order[:total].reshape(self.rounds, self.num_replicas)

    def __iter__(self) -> Iterator[int]:
        return iter(self.table()[:, self.rank].tolist())
