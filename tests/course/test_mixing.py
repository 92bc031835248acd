"""Graphs, mixing matrices and rumours: against what is known of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from courselib import mixing
from courselib.mixing import Graph

GRAPHS: dict[str, Callable[[int], Graph]] = {
    "ring": mixing.ring,
    "torus": mixing.torus,
    "complete": mixing.complete,
    "tree": mixing.tree,
    "star": mixing.star,
    "random": mixing.random_regular,
}


@pytest.mark.parametrize(
    ("name", "n", "links", "diameter"),
    [
        ("ring", 16, 16, 8),
        ("torus", 16, 32, 4),
        ("complete", 16, 120, 1),
        ("tree", 15, 14, 6),
        ("star", 16, 15, 2),
        ("ring", 2, 1, 1),
    ],
)
def test_links_and_diameter(name: str, n: int, links: int, diameter: int) -> None:
    graph = GRAPHS[name](n)
    assert (mixing.links(graph), mixing.diameter(graph)) == (links, diameter)


@pytest.mark.parametrize("name", GRAPHS)
def test_links_go_both_ways(name: str) -> None:
    graph = GRAPHS[name](16)
    assert all(rank in graph[other] and other != rank for rank in range(16) for other in graph[rank])


@pytest.mark.parametrize(("n", "degree"), [(16, 4), (64, 4), (64, 6)])
def test_random_neighbours_are_as_many_as_asked_for(n: int, degree: int) -> None:
    graph = mixing.random_regular(n, degree)
    assert {len(others) for others in graph} == {degree}
    assert mixing.diameter(graph) < n  # connected


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="a square number of ranks, not 8"):
        mixing.torus(8)
    with pytest.raises(ValueError, match="3 neighbours"):
        mixing.random_regular(16, 3)


@pytest.mark.parametrize("name", GRAPHS)
def test_metropolis_weights_are_doubly_stochastic(name: str) -> None:
    matrix = mixing.metropolis(GRAPHS[name](16))
    assert (matrix >= 0).all()
    assert matrix.sum(axis=0) == pytest.approx(1)
    assert matrix.sum(axis=1) == pytest.approx(1)


def test_plain_means_have_rows_that_sum_to_one_and_columns_that_do_not() -> None:
    matrix = mixing.plain_average(mixing.star(8))
    assert matrix.sum(axis=1) == pytest.approx(1)
    assert matrix.sum(axis=0).tolist() == pytest.approx([1 / 8 + 7 / 2, *[1 / 8 + 1 / 2] * 7])


@pytest.mark.parametrize("n", [8, 16, 64])
def test_the_gap_of_a_ring(n: int) -> None:
    assert mixing.gap(mixing.metropolis(mixing.ring(n))) == pytest.approx(2 / 3 * (1 - math.cos(2 * math.pi / n)))


def test_a_mesh_agrees_at_once() -> None:
    matrix = mixing.metropolis(mixing.complete(8))
    assert mixing.gap(matrix) == pytest.approx(1)
    assert mixing.errors(matrix, np.arange(8.0), 1)[1] == pytest.approx(0, abs=1e-12)


def test_errors_shrink_in_the_end_by_the_second_eigenvalue() -> None:
    matrix = mixing.metropolis(mixing.torus(36))
    errors = mixing.errors(matrix, np.random.default_rng(0).normal(size=36), 60)
    assert errors[0] == 1
    assert errors[60] / errors[59] == pytest.approx(mixing.second(matrix), rel=1e-3)


def test_weights_of_a_rank_leave_itself_out() -> None:
    others, weights = mixing.weights_of(mixing.metropolis(mixing.ring(8)), 0)
    assert others == [1, 7]
    assert weights == pytest.approx([1 / 3, 1 / 3])


def test_nobody_calls_itself() -> None:
    called = mixing.calls(9, 200, 0)
    assert (called != np.arange(9)).all()
    assert set(called[:, 0].tolist()) == set(range(1, 9))


def test_a_rank_and_its_partner_talk_to_each_other_equally_often() -> None:
    of_ranks = [mixing.partners(9, 50, 0, rank) for rank in range(9)]
    for in_round in zip(*of_ranks, strict=True):
        for rank, peers in enumerate(in_round):
            assert rank not in peers
            assert all(peers.count(peer) == in_round[peer].count(rank) for peer in peers)


@pytest.mark.parametrize("how", ["push", "pull", "push-pull"])
def test_a_rumour_reaches_all_and_at_most_doubles_where_only_callers_tell(how: str) -> None:
    knows = mixing.informed(256, how, 0)
    assert (knows[0], knows[-1]) == (1, 256)
    assert knows == sorted(knows)
    if how == "push":
        assert all(after <= 2 * before for before, after in pairwise(knows))


def test_a_rumour_that_needs_more_rounds_says_so() -> None:
    with pytest.raises(ValueError, match="3 rounds are not enough"):
        mixing.informed(256, "push", 0, rounds=3)
