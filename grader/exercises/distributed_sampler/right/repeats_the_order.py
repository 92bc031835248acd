import math

import torch


class ShardedSampler:
    def __init__(self, dataset_size, num_replicas, rank, shuffle=True, seed=0, drop_last=False):
        self.size, self.replicas, self.rank = dataset_size, num_replicas, rank
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0
        if drop_last:
            self.each = dataset_size // num_replicas
        else:
            self.each = math.ceil(dataset_size / num_replicas)

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.each

    def __iter__(self):
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = torch.randperm(self.size, generator=generator).tolist()
        else:
            order = list(range(self.size))
        total = self.each * self.replicas
        if total > len(order):
            order = (order * math.ceil(total / len(order)))[:total]
        return iter(order[self.rank : total : self.replicas])
