"""No padded list: place p of the dealt-out order is sample p modulo the size; a generator of numbers."""

import torch


class ShardedSampler:
    def __init__(self, dataset_size, num_replicas, rank, shuffle=True, seed=0, drop_last=False):
        self.n, self.world, self.rank = dataset_size, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0

    def __len__(self):
        return (self.n + (0 if self.drop_last else self.world - 1)) // self.world

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        order = torch.arange(self.n)
        if self.shuffle:
            order = torch.randperm(self.n, generator=torch.Generator().manual_seed(self.seed + self.epoch))
        for step in range(len(self)):
            yield order[(step * self.world + self.rank) % self.n].item()
