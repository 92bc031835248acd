"""cycle and islice; the order is drawn in set_epoch already, and a pass only walks along it."""

from itertools import cycle, islice
from math import ceil, floor

import torch


class ShardedSampler:
    def __init__(self, dataset_size: int, num_replicas: int, rank: int, shuffle: bool = True, seed: int = 0,
                 drop_last: bool = False) -> None:
        self.dataset_size, self.num_replicas, self.rank = dataset_size, num_replicas, rank
        self.shuffle, self.seed = shuffle, seed
        self.round_off = floor if drop_last else ceil
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        self.order = range(self.dataset_size)
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + epoch)
            self.order = tuple(torch.randperm(self.dataset_size, generator=generator).tolist())

    def __len__(self) -> int:
        return self.round_off(self.dataset_size / self.num_replicas)

    def __iter__(self):
        return islice(cycle(self.order), self.rank, len(self) * self.num_replicas, self.num_replicas)
