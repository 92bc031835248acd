"""Models on a grid: what is written with them is known exactly, and every mistake shows. And the rounds of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.exercise import Draw
from grader.exercises.speculative_decoding.cases import GRIDS, Text
from grader.exercises.speculative_decoding.runs import Call, Round, rounds
from grader.exercises.speculative_decoding.tables import CONTEXTS, RIGHT, SAME, Table, tables, telling


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: "L = {}, k = {}, {} new".format(*grid))
@pytest.mark.parametrize("seed", range(1, 4))
def test_every_mistake_shows_in_some_table_and_the_right_way_in_none(
    grid: tuple[int, int, int, int], seed: int
) -> None:
    levels, k, new, count = grid
    found = tables(Draw(seed), levels, k, new, count)
    for each in found:
        assert sum(each.right().values()) == 1.0
        assert each.written() == each.written(replace(RIGHT, short=True)) == each.right()
        assert each.rounds() == each.rounds(replace(RIGHT, short=True))
    for way in telling(levels, k, new):
        assert any(each.written(way) != each.right() for each in found), way


@pytest.mark.parametrize("grid", [grid for grid in GRIDS if 1 < grid[2] <= grid[1]], ids=str)
@pytest.mark.parametrize("seed", range(1, 7))
def test_a_draft_that_misses_a_part_of_its_context_is_refused_more_often_whatever_the_seed(
    grid: tuple[int, int, int, int], seed: int
) -> None:
    levels, k, new, count = grid
    found = tables(Draw(seed), levels, k, new, count)
    for way in CONTEXTS:
        assert all(each.written(way) == each.right() for each in found)
        assert all(each.rounds(way) >= each.rounds() for each in found)
        assert k > new or any(each.rounds(way) > each.rounds() for each in found)


def test_a_table_gives_what_can_be_worked_out_by_hand() -> None:
    rows = {(): (2, 2, 0), (0,): (0, 0, 4), (1,): (4, 0, 0), (2,): (0, 4, 0)}
    other = {(): (1, 1, 2), (0,): (0, 0, 4), (1,): (0, 4, 0), (2,): (4, 0, 0)}
    table = Table(4, (0,), 2, 2, rows, other)
    assert table.right() == {(0, 2): 0.5, (1, 0): 0.5}
    assert (
        table.rounds() == 1.5
    )  # a half of the drafts is refused; after one that is accepted the second token is there
    assert table.rounds(SAME) == 1.75  # 1/4 * 1/2 twice


def test_rounds_are_read_off_the_calls() -> None:
    calls = [("draft", 9), ("draft", 9, 1), ("target", 9, 1, 2), ("draft", 9, 1, 5), ("draft", 9, 1, 5, 6)]
    calls.append(("target", 9, 1, 5, 6, 7))
    found = rounds([Call.of(call) for call in calls], (9,), (1, 5, 6, 7, 8))
    assert found == [Round(1, (1, 2), 1, (1, 5)), Round(3, (6, 7), 2, (6, 7, 8))]


def test_a_draft_that_lags_or_is_asked_once_too_often_does_not_move_a_round() -> None:
    lagging = [("draft", 9), ("target", 9, 1), ("draft", 9, 1), ("target", 9, 1, 2, 3)]
    assert [one.begin for one in rounds([Call.of(call) for call in lagging], (9,), (1, 2, 4))] == [1, 3]
    asked_again = [
        ("draft", 9),
        ("draft", 9, 1),
        ("target", 9, 1),
        ("draft", 9, 1, 2),
        ("draft", 9, 1, 2, 3),
        ("target", 9, 1, 2, 3),
    ]
    assert [one.begin for one in rounds([Call.of(call) for call in asked_again], (9,), (1, 2, 3, 4))] == [1, 3]


@pytest.mark.parametrize(
    ("k", "new", "misses", "most"), [(3, 8, 0, 2), (3, 9, 0, 3), (2, 9, 2, 5), (1, 6, 1, 6), (3, 13, 4, 4)]
)
def test_the_fewest_calls(k: int, new: int, misses: int, most: int) -> None:
    assert Text((0,), tuple(range(2, 80, 2)), new, k, misses).most == most
