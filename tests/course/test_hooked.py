"""The four hooks of chapter 09: each rank has its part of the mean gradient, and one weight is whole at a time."""

from __future__ import annotations

import pytest

from grader.ranks.engines import Engines
from grader.ranks.program import Limits, Program, same_for_all

SOURCE = """
import torch
import torch.distributed as dist
from torch import nn
from courselib.hooked import Sharded

def trained():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in range(3)))
    n, rank = dist.get_world_size(), dist.get_rank()
    sum(model(torch.full((2, 4), 1.0 + k)).square().mean() for k in range(n)).backward()
    expected = [layer.weight.grad.chunk(n)[rank] / n for layer in model]
    model.zero_grad()
    whole = []
    note = lambda hook: whole.append(sum(unit.memory.nbytes() > 0 for unit in units))
    units = [Sharded(layer, note) for layer in model]
    model(torch.full((2, 4), 1.0 + rank)).square().mean().backward()
    return [max(whole), max((unit.gradient - part).abs().max().item() for unit, part in zip(units, expected))]
"""


def test_each_rank_has_its_part_of_the_mean_and_one_whole_weight(engines: Engines) -> None:
    calls = [same_for_all(2)]
    said = engines.run("sim", Program.of(SOURCE, "a cell", "trained"), 2, calls, 1, Limits()).calls[0].returned
    assert said == ([1, pytest.approx(0, abs=1e-6)],) * 2
