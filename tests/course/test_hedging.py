"""Hedged requests and backup tasks: what they gain, and what they cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from courselib.hedging import job, queueing


def test_hedges_help_where_there_is_room_and_drown_where_there_is_none() -> None:
    (calm, once), (hedged, more) = (queueing(0.3, hedge, requests=4000) for hedge in (0.0, 3.0))
    assert hedged < calm
    assert once < more < 1.25 * once
    plain, drowned, kept = (queueing(0.8, 3.0, budget, requests=4000) for budget in (0.0, 1.0, 0.05))
    assert plain == queueing(0.8, requests=4000)
    assert drowned[0] > 2 * max(plain[0], kept[0])
    assert kept[1] < 1.1 * plain[1]


@pytest.mark.parametrize(
    ("tasks", "slowness", "plain", "backup"),
    [
        ([1.0] * 4, [1.0] * 2, (2.0, 4.0), (2.0, 4.0)),
        ([1.0, 1.0], [1.0, 5.0], (5.0, 6.0), (2.0, 4.0)),  # the copy runs from 1 to 2 and the slow one is stopped
        ([1.0, 4.0], [1.0, 1.0], (4.0, 5.0), (4.0, 8.0)),  # a large task is as large elsewhere
    ],
)
def test_jobs(
    tasks: list[float], slowness: list[float], plain: tuple[float, float], backup: tuple[float, float]
) -> None:
    assert job(tasks, slowness) == plain
    assert job(tasks, slowness, backup=True) == backup


@given(st.lists(st.floats(0.1, 9), min_size=1, max_size=20), st.lists(st.floats(1, 9), min_size=1, max_size=5))
def test_backups_never_make_a_job_later(tasks: list[float], slowness: list[float]) -> None:
    assert job(tasks, slowness, backup=True)[0] <= job(tasks, slowness)[0]
