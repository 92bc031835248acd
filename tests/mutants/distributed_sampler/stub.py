"""The released stub, as it is before anybody has written anything.

check: covers
kind: crash
"""


class ShardedSampler:
    def __init__(self, dataset_size, num_replicas, rank, shuffle=True, seed=0, drop_last=False):
        raise NotImplementedError()
