"""What samplers must hand out, computed in numpy, is what torch's own hands out."""

from __future__ import annotations

import itertools

import pytest
from torch.utils.data import DistributedSampler

from grader.exercises.distributed_sampler.samplers import Job

SIZES = (1, 2, 3, 7, 10, 97, 1000)


@pytest.mark.parametrize("replicas", [1, 2, 3, 4, 8, 16])
def test_all_lists_are_torchs(replicas: int) -> None:
    for size, shuffle, drop_last, epoch in itertools.product(SIZES, (True, False), (True, False), (0, 3)):
        job = Job(size, replicas, shuffle, 123456, drop_last)
        theirs = []
        for rank in range(replicas):
            sampler = DistributedSampler(range(size), replicas, rank, shuffle, 123456, drop_last)  # type: ignore[arg-type,var-annotated]
            sampler.set_epoch(epoch)
            theirs.append(list(sampler))
            assert len(sampler) == job.each
        assert job.lists(epoch) == theirs, job
