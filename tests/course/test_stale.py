"""What a parameter server decides: who goes on, how old a gradient is, and what it is worth."""

from __future__ import annotations

import numpy as np
import pytest

from courselib import stale
from courselib.softmax import SIZE
from courselib.stale import Server, Worker


def server(ahead: int | None = None, rule: str = "plain", workers: int = 2, seconds: float = 1.0) -> Server:
    return Server(workers, False, 0.5, seconds, ahead, rule)


def pushed(one: Server, worker: int, version: int, value: float = 1.0, now: float = 0.0) -> None:
    one.push(worker, np.append(np.full(SIZE, value), version), now)


def test_a_synchronous_server_waits_for_all() -> None:
    one = server(ahead=0)
    assert one.ready() == [1, 2]
    pushed(one, 1, 0)
    assert one.ready() == []
    pushed(one, 2, 0)
    assert one.ready() == [1, 2]


def test_an_asynchronous_server_waits_for_nobody() -> None:
    one = server()
    one.ready()
    for version in range(5):
        pushed(one, 1, version)
        assert one.ready() == [1]


@pytest.mark.parametrize("ahead", [1, 3])
def test_with_a_bound_a_worker_is_at_most_so_many_clocks_ahead(ahead: int) -> None:
    one = server(ahead=ahead)
    one.ready()
    for step in range(ahead):
        pushed(one, 1, step)
        assert one.ready() == [1]
    pushed(one, 1, ahead)
    assert one.ready() == []
    pushed(one, 2, 0)
    assert one.ready() == [1, 2]


def test_age_counts_the_updates_since_the_pull() -> None:
    one = server(workers=3)
    one.ready()
    for worker in (1, 2, 3):
        pushed(one, worker, 0)
    assert [push.age for push in one.log] == [0, 1, 2]


@pytest.mark.parametrize(("rule", "moves"), [("plain", [0.5, 0.5, 0.5]), ("scale", [0.5, 0.25, 0.5 / 3]),
                                             ("reject:1", [0.5, 0.5, 0.0])])  # fmt: skip
def test_what_a_gradient_of_age_0_1_and_2_is_worth(rule: str, moves: list[float]) -> None:
    one = server(rule=rule, workers=3)
    one.ready()
    before, found = one.w, []
    for worker in (1, 2, 3):
        pushed(one, worker, 0)
        found.append(float((before - one.w)[0]))
        before = one.w
    assert found == pytest.approx(moves)
    assert [push.applied for push in one.log] == [move > 0 for move in moves]


def test_a_refused_gradient_is_no_update() -> None:
    one = server(rule="reject:0")
    one.ready()
    pushed(one, 1, 0)
    pushed(one, 2, 0)
    assert (one.version, one.ready()) == (1, [1, 2])


def test_compensation_is_along_the_way_since_the_pull() -> None:
    one = server(rule="compensate")
    one.ready()
    pushed(one, 1, 0, 1.0)  # moves by -0.5
    pushed(one, 2, 0, 2.0)
    assert one.w[0] == pytest.approx(-0.5 - 0.5 * (2.0 + stale.STRENGTH * 4.0 * -0.5))


def test_all_are_told_to_stop_when_time_is_up() -> None:
    one = server(ahead=0)
    one.ready()
    pushed(one, 1, 0, now=2.0)
    assert (one.ready(), one.answer()[-1], one.stopped) == ([1], -1, 1)
    pushed(one, 2, 0, now=2.1)
    assert (one.ready(), one.stopped) == ([2], 2)


def test_serve_trains_a_worker_that_answers_at_once() -> None:
    worker, answers, now = Worker(1, 1), list[np.ndarray](), iter(range(1000))
    log = stale.serve(
        lambda: (1, push) if (push := worker.gradient(answers[-1])) is not None else (1, answers[-1]),
        lambda answer, to: answers.append(answer), lambda: float(next(now)), 1, False, 0.25, 100.0,
    )  # fmt: skip
    assert len(log) == 100
    assert log[-1][1] < 0.3 * log[0][1]
    assert worker.gradient(answers[-1]) is None


@pytest.mark.parametrize(("how", "rank", "seconds"), [("even", 2, 0.01), ("one slow", 2, 0.05), ("one slow", 1, 0.01)])
def test_paces(how: str, rank: int, seconds: float) -> None:
    assert Worker(rank, 2).seconds(how) == pytest.approx(seconds)


def test_one_gradient_in_twenty_stalls() -> None:
    worker, late = Worker(1, 2), 0
    for worker.step in range(1000):
        late += worker.seconds("stalls") > 0.05
    assert 30 < late < 75


@pytest.mark.parametrize("age", [0, 1, 2, 7, 20])
def test_the_largest_steady_rate_is_that_of_theory(age: int) -> None:
    assert stale.largest_steady_rate(age) == pytest.approx(stale.steady_limit(age), rel=0.02)


def test_thinning_takes_the_mean_and_the_last_time() -> None:
    rows = [[1.0, 4.0], [2.0, 2.0], [3.0, 5.0]]
    assert stale.thinned(rows, 2) == [(2.0, 3.0), (3.0, 5.0)]
