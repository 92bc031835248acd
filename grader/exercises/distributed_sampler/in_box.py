"""Makes samplers, a whole set or the rank's own, and writes down what they hand out."""

from __future__ import annotations

import itertools
import operator
import random
from typing import Any

import numpy as np
import torch
import torch.distributed as dist


def hand_out(
    make: Any, size: int, replicas: int, options: dict[str, Any], epochs: list[int | None], extra: list[int],
    inside: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """What all ranks' samplers hand out in `epochs` (None: without set_epoch), made as in processes of their own.

    `extra[rank]` is how often that rank has gone through its sampler before. `inside` says that rank 0 does so in the
    middle of the pass that counts. `disturbed` are the ranks whose sampler left torch's global generator another.
    """
    samplers = []
    for rank in range(replicas):
        _other_process(rank)
        samplers.append(make(size, replicas, rank, **options))
    rows: list[list[Any]] = [[] for _ in epochs]
    disturbed = []
    for rank, sampler in enumerate(samplers):
        _other_process(replicas + rank)
        before = torch.get_rng_state()
        for _ in range(extra[rank]):
            _indices(sampler, size, replicas)
        for row, epoch in zip(rows, epochs, strict=True):
            if epoch is not None:
                sampler.set_epoch(epoch)
            row.append(_indices(sampler, size, replicas, inside and rank == 0))
        if not torch.equal(before, torch.get_rng_state()):
            disturbed.append(rank)
    return {"orders": rows, "disturbed": disturbed}


def lengths(make: Any, size: int, replicas: int, options: dict[str, Any]) -> dict[str, Any]:
    """What all ranks' samplers hand out, and their len()."""
    samplers = [make(size, replicas, rank, **options) for rank in range(replicas)]
    before = [len(sampler) for sampler in samplers]
    return {"orders": [[_indices(sampler, size, replicas) for sampler in samplers]], "lengths": before}


def with_the_rest(make: Any, size: int, replicas: int, options: dict[str, Any]) -> dict[str, Any]:
    """What all ranks' samplers hand out with drop_last=True, and what they do without."""
    both = [hand_out(make, size, replicas, {**options, "drop_last": drop}, [None], [0] * replicas) for drop in (1, 0)]
    return {"orders": both[0]["orders"] + both[1]["orders"]}


def after_others(make: Any, size: int, replicas: int, options: dict[str, Any], others: int) -> dict[str, Any]:
    """What all ranks' samplers hand out, when those for other ranks have handed out the same order before."""
    for number in (others, replicas):
        found = hand_out(make, size, number, options, [None], [0] * number)
    return found


def beside_another(make: Any, size: int, replicas: int, options: dict[str, Any], epoch: int) -> dict[str, Any]:
    """What all ranks' samplers hand out in epoch 0 and in `epoch`: two of a rank one after another, then two at once."""
    alone = hand_out(make, size, replicas, options, [None], [0] * replicas)["orders"]
    alone += hand_out(make, size, replicas, options, [epoch], [0] * replicas)["orders"]
    both: list[list[Any]] = [[], []]
    for rank in range(replicas):
        at_first, later = (make(size, replicas, rank, **options) for _ in range(2))
        later.set_epoch(epoch)
        for row, sampler in zip(both, (at_first, later), strict=True):
            row.append(_indices(sampler, size, replicas))
    return {"orders": alone + both}


def own(make: Any, size: int, options: dict[str, Any], epochs: list[int]) -> dict[str, Any]:
    """What this rank's sampler hands out in `epochs`."""
    rank, replicas = dist.get_rank(), dist.get_world_size()
    _other_process(rank)
    sampler = make(size, replicas, rank, **options)
    rows = []
    for epoch in epochs:
        sampler.set_epoch(epoch)
        rows.append([_indices(sampler, size, replicas)])
    return {"orders": rows}


def _other_process(number: int) -> None:
    """Leave the global generators as no other process has them."""
    torch.manual_seed(1000003 + number)
    random.seed(1000003 + number)
    np.random.seed(1000003 + number)


def _indices(sampler: Any, size: int, replicas: int, inside: bool = False) -> list[Any]:
    """What one pass hands out, and not much more than it may. `inside` it, behind its first index, another is made, of
    epoch 1."""
    one = itertools.islice(sampler, 2 * size + 4 * replicas)
    found = [_index(index) for index in itertools.islice(one, 1)]
    if inside:
        sampler.set_epoch(1)
        _indices(sampler, size, replicas)
        sampler.set_epoch(0)
    return [*found, *map(_index, one)]


def _index(value: Any) -> Any:
    """An int, also for one of numpy. A tensor stays what it is: it is an index of a list, but no key of a dict."""
    if isinstance(value, torch.Tensor):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return value
