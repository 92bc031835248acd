"""Seeds torch's global generator, from which dropout draws too.

check: agree
kind: wrong_result
only: yes
"""

import math
import torch


class ShardedSampler:
    def __init__(self, dataset_size, num_replicas, rank, shuffle=True, seed=0, drop_last=False):
        self.dataset_size = dataset_size
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        if drop_last:
            self.num_samples = dataset_size // num_replicas
        else:
            self.num_samples = math.ceil(dataset_size / num_replicas)

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.num_samples

    def __iter__(self):
        if self.shuffle:
            torch.manual_seed(self.seed + self.epoch)
            order = torch.randperm(self.dataset_size).tolist()
        else:
            order = list(range(self.dataset_size))
        total = self.num_samples * self.num_replicas
        while len(order) < total:
            order += order[: total - len(order)]
        order = order[:total]
        return iter(order[self.rank :: self.num_replicas])
