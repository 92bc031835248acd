"""A torch Sampler that folds the padded order into a matrix, a column for each rank; its indices are NumPy integers."""

import torch
from torch.utils.data import Sampler


class ShardedSampler(Sampler):
    def __init__(self, dataset_size, num_replicas, rank, shuffle=True, seed=0, drop_last=False):
        if not 0 <= rank < num_replicas:
            raise ValueError(f"rank {rank} is none of {num_replicas}")
        rows, rest = divmod(dataset_size, num_replicas)
        self.rows = rows if drop_last or not rest else rows + 1
        self.shape = (self.rows, num_replicas)
        self.dataset_size, self.column, self.shuffle = dataset_size, rank, shuffle
        self.seed = self.first_seed = seed

    def set_epoch(self, epoch):
        self.seed = self.first_seed + epoch

    def __len__(self):
        return self.rows

    def __iter__(self):
        generator = torch.Generator()
        generator.manual_seed(self.seed)
        order = torch.randperm(self.dataset_size, generator=generator) if self.shuffle else torch.arange(self.dataset_size)
        total = self.shape[0] * self.shape[1]
        repeats = 1 + total // self.dataset_size
        return iter(order.repeat(repeats)[:total].reshape(self.shape)[:, self.column].numpy())
