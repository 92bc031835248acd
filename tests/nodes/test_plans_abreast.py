"""Plans of a check are carried out side by side, and judged in their order; the first check is done before others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from grader.lost import Lost
from grader.nodes import bench
from grader.nodes.boxes import Boxes
from grader.nodes.plan import Plan
from grader.verdict import Diagnosis
from grader.worlds.nodes import _Clusters

PLANS = [Plan((), {}, seed=seed) for seed in range(5)]


def test_plans_that_were_drawn_come_before_what_the_next_raises() -> None:
    def drawn() -> Iterator[Plan]:
        yield from PLANS
        raise Lost(Diagnosis("crash", "a pilot"))

    found = bench._batches(drawn(), 3)
    assert [next(found), next(found)] == [PLANS[:3], PLANS[3:]]
    with pytest.raises(Lost):
        next(found)
    assert list(bench._batches(iter(PLANS), 5)) == [PLANS]


def test_the_first_check_is_done_before_the_others_begin() -> None:
    boxes = Boxes(None, None, ())  # type: ignore[arg-type]  # none is asked for anything
    clusters = _Clusters.__new__(_Clusters)
    clusters._bench = boxes  # type: ignore[assignment]
    begun: list[int] = []
    results = clusters.together([partial(begun.append, number) for number in range(3)])
    next(results)
    assert begun == [0]
    assert len(list(results)) == 2
    assert begun == [0, 1, 2]
