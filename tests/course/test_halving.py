"""Successive halving and ASHA: the arithmetic of their rungs, on curves that are made up and on real ones."""

from __future__ import annotations

import itertools

import pytest

from courselib import halving

NINE = [[float(10 * number + epoch) for epoch in range(9)] for number in range(9)]  # the smaller number is better


@pytest.mark.parametrize(
    ("least", "most", "eta", "levels"),
    [
        (1, 27, 3, [1, 3, 9, 27]),
        (1, 81, 3, [1, 3, 9, 27, 81]),
        (4, 27, 3, [4, 12]),
        (1, 16, 4, [1, 4, 16]),
        (5, 5, 2, [5]),
    ],
)
def test_rungs_grow_by_eta(least: int, most: int, eta: int, levels: list[int]) -> None:
    assert halving.rungs(least, most, eta) == levels


def test_each_rung_keeps_the_best_third() -> None:
    found = halving.successive_halving(NINE, 1, 3)
    assert [sorted(there) for there in found.at] == [list(range(9)), [0, 1, 2], [0]]
    assert found.best == 0


def test_who_is_promoted_goes_on_from_where_it_was() -> None:
    assert halving.successive_halving(NINE, 1, 3).epochs == 9 * 1 + 3 * 2 + 1 * 6  # of 81 of the full grid


def test_in_step_a_slow_one_holds_up_the_rung_and_asha_does_not_wait() -> None:
    losses = [*NINE, *([[99.0] * 9] * 3)]
    pace = [1.0] * 11 + [20.0]
    waits, goes_on = halving.in_step(losses, 1, 3, 3, pace), halving.asha(losses, 1, 3, 3, pace)
    second = min(since for _, since, _, _, rung in waits.boxes if rung == 1)
    assert second >= 20
    assert min(since for _, since, _, _, rung in goes_on.boxes if rung == 1) < 20
    top = [min(until for _, _, until, _, rung in run.boxes if rung == 2) for run in (waits, goes_on)]
    assert top[1] < 20 < top[0]  # the winner is known before the slow one is at its first rung


def test_asha_promotes_by_what_it_has_seen_so_far() -> None:
    worst_first = NINE[::-1]
    found = halving.asha(worst_first, 1, 3, 1, [1.0] * 9)
    assert found.halving.epochs > halving.successive_halving(worst_first, 1, 3).epochs
    assert found.halving.best == 8


def test_nobody_is_in_two_places_and_no_rung_is_left_out() -> None:
    found = halving.asha(NINE, 1, 3, 4, [1.0, 3.0, 2.0] * 3)
    for worker in range(4):
        mine = sorted((since, until) for who, since, until, _, _ in found.boxes if who == worker)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(mine))
    assert len({(number, rung) for *_, number, rung in found.boxes}) == len(found.boxes)
    assert all(rung == 0 or number in found.halving.at[rung - 1] for *_, number, rung in found.boxes)


def test_a_real_search_is_the_same_every_time_and_can_be_drawn() -> None:
    configs = halving.draw(9, 0)
    losses = halving.curves(configs, 9)
    assert losses == halving.curves(configs, 9)
    found = halving.successive_halving(losses, 1, 3)
    assert losses[found.best][-1] < 0.5 * max(row[-1] for row in losses)
    assert "svg" in found._repr_html_()
    assert "svg" in halving.asha(losses, 1, 3, 3, [1.0] * 9).picture("ASHA").svg
