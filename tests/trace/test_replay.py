"""Logical time: rounds of known patterns, and what waits for ever."""

from __future__ import annotations

import math

import pytest
from builders import Script
from hypothesis import given
from hypothesis import strategies as st
from runs import ring

from grader.trace.events import RECV, SEND, Trace
from grader.trace.replay import replay, rounds


def linear_broadcast(ranks: int) -> Trace:
    script = Script(ranks)
    sends = [script.post(0, SEND, rank) for rank in range(1, ranks)]
    for send in sends:
        script.wait(send)
    for rank in range(1, ranks):
        script.call(rank, RECV, 0)
    return script.trace


def chain(ranks: int) -> Trace:
    script = Script(ranks)
    for rank in range(ranks):
        if rank:
            script.call(rank, RECV, rank - 1)
        if rank < ranks - 1:
            script.call(rank, SEND, rank + 1)
    return script.trace


def exchange_by_parity(ranks: int) -> Trace:
    """Even ranks send first, odd ranks receive first: no deadlock, but two rounds for every step."""
    script = Script(ranks)
    for rank in range(ranks):
        order = [(SEND, (rank + 1) % ranks), (RECV, (rank - 1) % ranks)]
        for kind, peer in order if rank % 2 == 0 else reversed(order):
            script.call(rank, kind, peer)
    return script.trace


PATTERNS = {
    "a ring of 4, six steps": (ring(4, 6), [6, 6, 6, 6]),
    "one rank": (Trace(1), [0]),
    "a broadcast over one port takes a round per receiver": (linear_broadcast(5), [4, 1, 2, 3, 4]),
    "a chain": (chain(4), [1, 2, 3, 3]),
    "by parity": (exchange_by_parity(4), [2, 2, 2, 2]),
}


@pytest.mark.parametrize(("trace", "expected"), PATTERNS.values(), ids=PATTERNS.keys())
def test_rounds_of_known_patterns(trace: Trace, expected: list[int]) -> None:
    assert rounds(trace) == expected


@given(st.integers(2, 9), st.integers(1, 20), st.integers(1, 1000), st.floats(0.01, 10), st.floats(0, 1))
def test_a_ring_takes_steps_times_latency_and_transfer(
    ranks: int, steps: int, size: int, alpha: float, beta: float
) -> None:
    finish = replay(ring(ranks, steps, size), alpha, beta).finish
    assert finish == pytest.approx([steps * (alpha + beta * size)] * ranks)


def test_ranks_that_wait_for_ever_never_finish() -> None:
    script = Script(2)
    for rank in range(2):
        script.call(rank, SEND, 1 - rank)
    timed = replay(script.trace)
    assert timed.finish == [math.inf, math.inf]
    assert {op.rank for op, _, until in timed.waits if until == math.inf} == {0, 1}
