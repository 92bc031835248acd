"""Training through a partition: who goes on, and what becomes of the loss."""

from __future__ import annotations

import pytest

from courselib.parted import gossiped, served


@pytest.mark.parametrize(("ahead", "pushes"), [(0, 2), (5, 12), (None, 100)])
def test_a_bound_decides_how_far_the_others_go_on_in_a_partition(ahead: int | None, pushes: int) -> None:
    log = served(ahead, 0.5, 1.0)
    assert sum(0.5 <= push.time < 1 and push.worker in (1, 2) for push in log) == pushes
    assert not any(0.5 <= push.time < 1 and push.worker in (3, 4) for push in log)


def test_the_mean_of_two_halves_is_better_than_either() -> None:
    losses = gossiped([0, 1, 4, 5], [2, 3, 6, 7], 100, 200)
    left, right, mean = (line[199][1] for line in losses.values())
    assert mean < min(left, right) / 5
    assert losses["left half"][-1] == pytest.approx(losses["right half"][-1])
