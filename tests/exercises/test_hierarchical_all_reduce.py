"""The flat ring's time in hierarchical_all_reduce is what the simulator measures, and its budget is sharp."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from grader.exercise import Draw
from grader.exercises import hierarchical_all_reduce
from grader.exercises.hierarchical_all_reduce import EXERCISE, GIVEN, TIMED, TIMED_BYTES, flat_ring
from grader.ranks.engines import Engines
from grader.ranks.program import Program, Strided, same_for_all
from grader.worlds.cases import Case

FLAT_RING = """
import torch
import torch.distributed as dist


def flat_ring(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = tensor.view(n, -1)
    incoming = torch.empty_like(chunks[0])
    for step in range(n - 1):
        request = dist.isend(chunks[(rank - step) % n], right)
        dist.recv(incoming, left)
        request.wait()
        chunks[(rank - step - 1) % n] += incoming
    for step in range(n - 1):
        request = dist.isend(chunks[(rank + 1 - step) % n], right)
        dist.recv(chunks[(rank - step) % n], left)
        request.wait()
"""
PROGRAM = Program.of(FLAT_RING, "flat_ring.py", "flat_ring", ("tensor",))
SMALLER = 8 * 3 * 2**10  # bytes: the formula is the same for every size that divides


@pytest.mark.parametrize(("nodes", "k"), [*TIMED, (2, 2), (4, 2), (3, 1)])
def test_the_flat_ring_takes_what_the_formula_says(engines: Engines, nodes: int, k: int) -> None:
    ranks, network = nodes * k, replace(GIVEN, ranks_per_node=k)
    calls = [same_for_all(ranks, Strided.of(np.ones(size // 8, np.int64))) for size in (8 * ranks, SMALLER)]
    run = engines.run("sim", PROGRAM, ranks, calls, network=network)
    for size, call in zip((8 * ranks, SMALLER), run.calls, strict=True):
        assert all((given[0].view() == ranks).all() for given in call.arguments), "no sum: its time means nothing"
        assert max(call.finish) == pytest.approx(flat_ring(size, ranks), rel=1e-9)


@pytest.mark.parametrize(("nodes", "k"), TIMED)
def test_the_stages_are_faster_with_room_to_spare(nodes: int, k: int) -> None:
    inside = 2 * (k - 1) * (GIVEN.alpha + TIMED_BYTES / k * GIVEN.beta)
    between = 2 * (nodes - 1) * k * (GIVEN.uplink_alpha + TIMED_BYTES / (nodes * k) * GIVEN.uplink_beta)
    assert inside + between < 0.8 * flat_ring(TIMED_BYTES, nodes * k)


def all_cases(group: str) -> list[Case]:
    return [case for case in EXERCISE.world.cases(Draw(1)) if case.group == group]


def test_every_way_to_put_ranks_on_nodes_is_tried() -> None:
    for group in ("sum", "crossing"):
        tried = {(case.ranks, case.arguments[0][1]) for case in all_cases(group)}
        assert tried == {(n, k) for n in (*range(1, 10), 12) for k in range(1, n + 1) if n % k == 0}


@pytest.mark.parametrize("case", all_cases("crossing"), ids=lambda case: case.label)
def test_a_flat_ring_sends_more_than_the_budget_wherever_there_are_nodes(case: Case) -> None:
    k, n = case.arguments[0][1], case.ranks
    size = case.tensors[0].numel * 8
    leaving = 2 * (n - 1) * size // n if k < n else 0
    assert (leaving > hierarchical_all_reduce._allowed(case)) == (1 < k < n)
