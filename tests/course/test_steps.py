"""What chapter 07 draws of a step, from logs that are made up."""

from __future__ import annotations

from typing import Any

import pytest

from courselib import steps


def log(offset: float, late: float) -> dict[str, list[Any]]:
    """Two steps of two layers and one bucket; the second step is `late` longer."""
    return {
        "layers": [0.0, 1.0, 10.0 + offset, 11.0 + offset],
        "buckets": [[0, 1.5, 4.0], [0, 12.0 + offset, 14.0 + offset + late]],
        "ended": [5.0, 15.0 + offset + late],
    }


def test_a_step_begins_when_its_last_rank_does_and_ends_when_its_last_rank_has() -> None:
    rows, seconds = steps.best_step([log(0.0, 0.0), log(0.5, 0.25)], layers=2)
    assert seconds == pytest.approx(15.75 - 10.5)
    assert rows["rank 1 computes"] == [
        (0.5, 1.5, "layer 2", "backward"),
        (1.5, 2.5, "layer 1", "backward"),
        (2.5, 5.75, "waits", "wait"),
    ]
    assert rows["rank 0 all-reduces"] == [(2.0, 4.0, "0", "all-reduce")]
