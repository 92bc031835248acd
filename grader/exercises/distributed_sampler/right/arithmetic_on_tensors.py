"""Index arithmetic on tensors: places are taken modulo the size, and no padded order is made."""

from collections.abc import Iterator

import torch


class ShardedSampler:
    def __init__(self, dataset_size, num_replicas, rank, shuffle=True, seed=0, drop_last=False) -> None:
        self._size = dataset_size
        self._shuffle = shuffle
        self._seed = seed
        self._epoch = 0
        rounds, rest = divmod(dataset_size, num_replicas)
        if rest and not drop_last:
            rounds += 1
        self._places = torch.arange(rounds) * num_replicas + rank

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __len__(self) -> int:
        return self._places.numel()

    def __iter__(self) -> Iterator[int]:
        places = self._places % self._size
        if not self._shuffle:
            return iter(places.tolist())
        generator = torch.Generator()
        generator.manual_seed(self._seed + self._epoch)
        order = torch.randperm(self._size, generator=generator)
        return iter(order[places].tolist())
