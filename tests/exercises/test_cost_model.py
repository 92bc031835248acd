"""The expected values of cost_model: the table is what the simulator measures, and the drawn inputs are sharp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from fractions import Fraction

import numpy as np
import pytest

from grader.exercise import Draw
from grader.exercises.cost_model import EXERCISE, costs
from grader.ranks.engines import Engines
from grader.ranks.network import Network
from grader.ranks.program import Program, same_for_all
from grader.worlds.cases import Case

PROGRAM = """
import torch
import torch.distributed as dist


def swap(outgoing, to, incoming, source):
    request = dist.isend(outgoing, to)
    dist.recv(incoming, source)
    request.wait()


def naive(size):
    rank, n = dist.get_rank(), dist.get_world_size()
    own = torch.ones(size, dtype=torch.uint8)
    if rank:
        dist.send(own, 0)
        dist.recv(own, 0)
        return own.sum()
    incoming = torch.empty_like(own)
    for other in range(1, n):
        dist.recv(incoming, other)
        own += incoming
    for other in range(1, n):
        dist.send(own, other)
    return own.sum()


def ring(size):
    rank, n = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = torch.ones(n, size // n, dtype=torch.uint8)
    incoming = torch.empty_like(chunks[0])
    for step in range(n - 1):
        swap(chunks[(rank - step) % n], right, incoming, left)
        chunks[(rank - step - 1) % n] += incoming
    for step in range(n - 1):
        swap(chunks[(rank + 1 - step) % n], right, chunks[(rank - step) % n], left)
    return chunks.sum()


def tree(size):
    rank, n = dist.get_rank(), dist.get_world_size()
    own = torch.ones(size, dtype=torch.uint8)
    incoming = torch.empty_like(own)
    distance = 1
    while distance < n:
        swap(own, rank ^ distance, incoming, rank ^ distance)
        own += incoming
        distance *= 2
    return own.sum()
"""
SEEDS = range(20)


@pytest.mark.parametrize(("network", "algorithm"), costs.MEASURED, ids=str)
def test_the_table_is_what_the_simulator_measures(engines: Engines, network: Network, algorithm: str) -> None:
    program = Program.of(PROGRAM, "all_reduce.py", algorithm, ("size",))
    rows = {1: (0.0,) * 3, **dict(zip(costs.MEASURED_RANKS, costs.MEASURED[network, algorithm], strict=True))}
    for ranks, expected in rows.items():
        calls = [same_for_all(ranks, size) for size in costs.MEASURED_SIZES]
        run = engines.run("sim", program, ranks, calls, network=network)
        assert [[int(total.view()) for total in call.returned] for call in run.calls] == [
            [ranks * size] * ranks for size in costs.MEASURED_SIZES
        ], "the program does not compute a sum: its time means nothing"
        assert [max(call.finish) * 1e6 for call in run.calls] == pytest.approx(list(expected), rel=1e-9)


def drawn(group: str, seed: int) -> Iterator[Case]:
    return (case for case in EXERCISE.world.cases(Draw(seed)) if case.group == group)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_world_size_is_that_of_a_search_in_exact_numbers(seed: int) -> None:
    for case in drawn("best_world_size", seed):
        _, per_sample, size, alpha, beta, most, batch = (Fraction(number) for number in astuple(case.expected))
        steps = {
            n: -(-batch // n) * per_sample + 2 * (n - 1) * (alpha + size / n * beta) for n in range(1, int(most) + 1)
        }
        assert case.expected.best() == min(steps, key=lambda n: (steps[n], n))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_wrong_way_to_choose_a_world_size_shows(seed: int) -> None:
    jobs = [case.expected for case in drawn("best_world_size", seed)]
    for choice, why in costs.CHOICES:
        assert any(choice(job) != job.best() for job in jobs), why


@pytest.mark.parametrize("seed", SEEDS)
def test_least_squares_is_within_the_tolerance_of_every_fit(seed: int) -> None:
    for group, share in (("fit", 0.1), ("noisy_fit", 0.5)):
        for case in drawn(group, seed):
            (arguments,), line = case.arguments, case.expected
            beta, alpha = np.polyfit(*arguments, 1)
            assert abs(alpha - line.alpha) < share * line.within[0]
            assert abs(beta - line.beta) < share * line.within[1]


def test_two_points_alone_do_not_pass_for_a_fit() -> None:
    for seed in SEEDS:
        outside = 0
        for case in drawn("noisy_fit", seed):
            (small, fast), *_, (large, slow) = sorted(zip(*case.arguments[0], strict=True))
            beta = (slow - fast) / (large - small)
            outside += abs(beta - case.expected.beta) > case.expected.within[1]
        assert outside, seed
