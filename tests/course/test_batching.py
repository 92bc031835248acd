"""Batches of requests in virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from courselib.batching import Served, serve


def flat(_: int) -> float:
    return 0.01


def test_alone_each_request_takes_its_own_time() -> None:
    run = serve(load=1, batch=1, wait=0.0, seconds_of=flat, requests=50)
    assert set(run.sizes) == {1}
    assert run.latency(0.5) == pytest.approx(0.01)


def test_a_wait_is_added_to_a_request_that_stays_alone() -> None:
    run = serve(load=0.01, batch=8, wait=0.005, seconds_of=flat, requests=20)
    assert run.latency(0.5) == pytest.approx(0.015)


def test_where_a_batch_costs_what_one_costs_batches_bear_more_load() -> None:
    alone, batched = (serve(load=400, batch=size, wait=0.0, seconds_of=flat) for size in (1, 16))
    assert alone.rate == pytest.approx(100, rel=0.02)  # 10 ms each, and no more
    assert batched.rate == pytest.approx(400, rel=0.1)
    assert batched.latency(0.99) < 0.05 < alone.latency(0.99)


@given(st.floats(1, 500), st.integers(1, 9), st.floats(0, 0.1), st.integers(0, 9))
def test_every_request_is_answered_once_in_its_order(load: float, batch: int, wait: float, seed: int) -> None:
    run = serve(load, batch, wait, lambda size: 0.001 + 0.002 * size, requests=60, seed=seed)
    assert len(run.began) == len(run.ended) == 60
    assert all(at <= start < end for at, start, end in zip(run.came, run.began, run.ended, strict=True))
    assert run.began == sorted(run.began)
    assert max(run.sizes) <= batch
    ends = [end for end, _ in dict.fromkeys(zip(run.ended, run.began, strict=True))]
    starts = sorted(set(run.began))
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False)), "one batch at a time"


def test_the_picture_has_a_box_for_each_batch_and_each_wait() -> None:
    run = Served([0.0, 0.1, 0.5], [0.1, 0.1, 0.6], [0.4, 0.4, 0.9])
    svg = run.picture("two batches", until=1.0).svg
    assert svg.count("(a batch runs)") == 2
    assert svg.count("(a request waits)") == 3


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be served"):
        serve(load=0, batch=1, wait=0, seconds_of=flat)
