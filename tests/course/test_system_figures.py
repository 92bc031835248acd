"""What the answers below figures claim."""

from __future__ import annotations

import pytest

from courselib.batching import serve
from courselib.figures.latency import LOADS
from courselib.figures.partition import REQUESTS, answered
from courselib.figures.staleness import limit, trained


@pytest.mark.parametrize(
    ("mode", "since", "until", "none"), [("AP", 3.1, 4.5, "stale"), ("CP", 2.9, 4.0, "refused"), ("CP", 0, 6, "stale")]
)
def test_how_long_a_partition_can_last(mode: str, since: float, until: float, none: str) -> None:
    assert none not in [one.what for one in answered(mode, since, until)]
    if until < 6:
        longer = [answered(mode, since - 0.1, until), answered(mode, since, until + 0.1)]
        assert all(none in [one.what for one in each] for each in longer)


def test_what_a_partition_leaves_behind() -> None:
    after = [one.what for one, (*_, at) in zip(answered("AP", 0.8, 3.4), REQUESTS, strict=True) if at > 3.4]
    assert "stale" in after
    assert answered("CP", 2.1, 4.0)[4].what == "refused"


def test_waiting_for_others_buys_fewer_calls_and_no_latency() -> None:
    def run(load: float, wait: float) -> tuple[float, int]:
        served = serve(load, 16, wait, lambda size: 0.010 + 0.001 * size, 2000)
        return served.latency(0.99), len(served.sizes)

    runs = {load: (run(load, 0.0), run(load, 0.02)) for load in LOADS if load < 600}
    assert all(waited[0] > at_once[0] - 0.002 for at_once, waited in runs.values())
    assert runs[100][1][1] < 0.6 * runs[100][0][1]


@pytest.mark.parametrize("workers", [1, 8, 16])
def test_training_settles_below_the_limit_of_its_age(workers: int) -> None:
    slow, fast = (trained(workers, 0, share * limit(workers - 1))[-1][1] for share in (0.9, 1.1))
    assert slow < 1e-3
    assert fast > 1e-2
