"""Times: recorded where they are known, logical where not, and told as a person would."""

from __future__ import annotations

import math

import pytest
from builders import Recording, Script
from runs import ring

from grader.trace import times
from grader.trace.events import RECV, SEND, Span, Trace
from grader.trace.replay import replay
from grader.trace.times import Unit


def exchange() -> Recording:
    run = Recording(2)
    run.compute(0, 0, 5)
    run.message(0, 1, 5, 2, 3)
    return run


def test_recorded_times_are_in_seconds() -> None:
    trace = exchange().done()
    timed = times.of(trace)
    send, recv = trace.messages[0]
    assert timed.posted[id(send)] == pytest.approx(5e-6)
    assert timed.starts[id(recv)] == pytest.approx(5e-6)
    assert timed.ends[id(recv)] == pytest.approx(8e-6)
    assert timed.finish == pytest.approx([8e-6, 8e-6])
    assert timed.makespan == pytest.approx(8e-6)
    assert [(op.rank, since, until) for op, since, until in timed.waits] == [
        (0, pytest.approx(5e-6), pytest.approx(8e-6)),
        (1, pytest.approx(2e-6), pytest.approx(8e-6)),
    ]


def test_what_was_never_done_is_waited_for_for_ever() -> None:
    run = exchange()
    run.wait(run.post(1, RECV, 0, 9), 9)
    timed = times.of(run.done())
    assert timed.finish[1] == math.inf
    assert timed.waits[-1][1:] == (pytest.approx(9e-6), math.inf)


def test_a_killed_rank_waits_until_it_is_killed() -> None:
    run = exchange()
    run.wait(run.post(1, RECV, 0, 9), 9)
    run.span(1, "killed", 11, 11)
    timed = times.of(run.done())
    assert timed.finish[1] == pytest.approx(11e-6)
    assert timed.waits[-1][1:] == (pytest.approx(9e-6), pytest.approx(11e-6))


def test_a_side_that_did_not_wait_moves_with_the_other() -> None:
    run = Recording(2)
    send = run.post(0, SEND, 1, 1)
    run.wait(run.post(1, RECV, 0, 0), 0, (1, 4))
    assert times.of(run.done()).ends[id(send)] == pytest.approx(4e-6)


def test_a_trace_whose_times_are_not_known_is_replayed() -> None:
    trace = exchange().done()
    trace.messages[0][0].ended = -1
    assert not times.recorded(trace)
    assert times.of(trace).makespan == replay(trace).makespan == 1
    assert times.unit(trace, times.of(trace)).rounds


UNITS = {
    "nanoseconds": (1.0, "ns"),
    "microseconds": (1e3, "µs"),
    "milliseconds": (1e6, "ms"),
    "whole seconds are rounds": (1e9, "round"),
    "seconds": (1.5e9, "s"),
}


@pytest.mark.parametrize(("unit", "name"), UNITS.values(), ids=UNITS.keys())
def test_the_unit_suits_the_run(unit: float, name: str) -> None:
    run = Recording(2, unit)
    run.message(0, 1, 0, 0, 5)
    trace = run.done()
    assert times.unit(trace, times.of(trace)).name == name
    assert times.unit(trace, times.of(trace), "us").name == "µs"


def test_a_models_passes_take_seconds_also_whole_ones() -> None:
    run = Recording(2, 1e9)
    run.message(0, 1, 0, 0, 5)
    trace = run.done()
    trace.spans.append(Span(0, "compute", 0, 10**9, name="F0"))
    assert times.unit(trace, times.of(trace)).name == "s"


def test_logical_time_is_in_rounds() -> None:
    trace = ring(3, 2)
    assert times.unit(trace, times.of(trace)).rounds


TICKS = {
    "every round": ("round", 1.0, 0, 4, 10, "0 1 2 3 4"),
    "every fifth": ("round", 1.0, 0, 20, 5, "0 5 10 15 20"),
    "never half a round": ("round", 1.0, 0, 2, 30, "0 1 2"),
    "halves": ("ms", 1e-3, 0, 2e-3, 5, "0.0 0.5 1.0 1.5 2.0"),
    "from within": ("µs", 1e-6, 3e-6, 9e-6, 3, "4 6 8"),
}


@pytest.mark.parametrize(("name", "size", "since", "until", "most", "expected"), TICKS.values(), ids=TICKS.keys())
def test_ticks_are_round(name: str, size: float, since: float, until: float, most: int, expected: str) -> None:
    assert " ".join(words for _, words in Unit(name, size).ticks(since, until, most)) == expected


TOLD = {
    "a moment": (Unit("ms", 1e-3).tell(1.25e-3), "1.25 ms"),
    "a round": (Unit("round", 1).tell(3), "round 3"),
    "never": (Unit("ms", 1e-3).tell(math.inf), "never"),
    "one round": (Unit("round", 1).lasted(1), "1 round"),
    "two": (Unit("round", 1).lasted(2), "2 rounds"),
    "forever": (Unit("round", 1).lasted(math.inf), "forever"),
    "short, on a long axis": (Unit("s", 1.0).lasted(2.5e-6), "2.5 µs"),
    "no exponent": (Unit("ns", 1e-9).lasted(1234567e-9), "1234567 ns"),
}


@pytest.mark.parametrize(("told", "expected"), TOLD.values(), ids=TOLD.keys())
def test_times_are_told_as_a_person_would(told: str, expected: str) -> None:
    assert told == expected


def test_nothing_at_all_has_times_too() -> None:
    for trace in (Trace(2), Trace(2, virtual=True), Script(1).trace):
        assert times.of(trace).makespan == 0
