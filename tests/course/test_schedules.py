"""Schedules as data: played in a small model of time, their length is the one of the literature."""

from __future__ import annotations

from typing import Any

import pytest

from courselib.figures import pipeline as figure
from courselib.figures.pipeline import orders
from courselib.figures.pipeline import played as drawn
from courselib.schedules import Pass, in_order, interleaved, zero_bubble


def played(ranks: list[list[Pass]]) -> tuple[float, list[int]]:
    """When the last rank is done if messages take no time, and how many activations each rank keeps at most.

    Messages from one rank to another come in the order in which they were sent. Fails where ranks wait for ever.
    """
    todo: list[list[Any]] = [list(passes) for passes in ranks]
    clocks, peaks = [0.0] * len(ranks), [0] * len(ranks)
    kept: list[set[str]] = [set() for _ in ranks]
    sent: dict[tuple[int, int], list[float]] = {}
    while any(todo):
        ready = [rank for rank, passes in enumerate(todo)
                 if passes and all(sent.get((peer, rank)) for peer in passes[0][3])]  # fmt: skip
        assert ready, "every rank waits for another"
        for rank in ready:
            name, activation, seconds, comes_from, goes_to = todo[rank].pop(0)
            came = [sent[peer, rank].pop(0) for peer in comes_from]
            clocks[rank] = max([clocks[rank], *came]) + seconds
            (kept[rank].add if name[0] in "Ff" else kept[rank].discard)(activation)
            peaks[rank] = max(peaks[rank], len(kept[rank]))
            for peer in goes_to:
                sent.setdefault((rank, peer), []).append(clocks[rank])
    assert not any(sent.values()), "a message that nobody takes"
    assert not any(kept), "an activation that is never let go"
    return max(clocks), peaks


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 1), (4, 1), (4, 3), (4, 8), (8, 8), (3, 64)])
def test_gpipe_and_1f1b_take_as_long_and_keep_m_and_p_minus_s(stages: int, micro_batches: int) -> None:
    one, all_forward = (
        [in_order(order, s, stages) for s, order in enumerate(orders(name, stages, micro_batches))]
        for name in ("1f1b", "gpipe")
    )
    took, peaks = played(all_forward)
    assert took == pytest.approx(3 * (micro_batches + stages - 1))
    assert peaks == [micro_batches] * stages
    took, peaks = played(one)
    assert took == pytest.approx(3 * (micro_batches + stages - 1))
    assert peaks == [min(stages - s, micro_batches) for s in range(stages)]


@pytest.mark.parametrize(("stages", "micro_batches", "pieces"), [(4, 8, 2), (4, 8, 4), (2, 4, 3), (8, 16, 2)])
def test_interleaving_divides_the_bubble_by_the_pieces(stages: int, micro_batches: int, pieces: int) -> None:
    took, _ = played([interleaved(s, stages, micro_batches, pieces) for s in range(stages)])
    assert took == pytest.approx(3 * micro_batches + 3 * (stages - 1) / pieces)


def test_interleaving_needs_micro_batches_in_groups() -> None:
    with pytest.raises(ValueError, match="4 stages do not divide 6 micro-batches"):
        interleaved(0, 4, 6, 2)


@pytest.mark.parametrize(("stages", "micro_batches"), [(4, 8), (2, 4), (8, 16)])
def test_zero_bubble_h1_leaves_a_third_and_keeps_no_more_than_1f1b(stages: int, micro_batches: int) -> None:
    alternating = orders("1f1b", stages, micro_batches)
    took, peaks = played([zero_bubble(order, s, stages) for s, order in enumerate(alternating)])
    assert took == pytest.approx(3 * micro_batches + stages - 1)
    assert max(peaks) == stages


def test_a_pass_names_its_seconds_and_neighbours() -> None:
    assert in_order(["F0", "B0"], 1, 3, 5.0, 7.0) == [["F0", "0", 5.0, [0], [2]], ["B0", "0", 7.0, [2], [0]]]
    assert in_order(["F0", "B0"], 0, 2) == [["F0", "0", 1.0, [], [1]], ["B0", "0", 2.0, [1], []]]


@pytest.mark.parametrize(("stages", "micro_batches", "pieces"), [(4, 8, 2), (2, 6, 3), (3, 3, 1), (1, 2, 2)])
def test_the_figure_plays_a_schedule_as_its_ranks_do(stages: int, micro_batches: int, pieces: int) -> None:
    alternating = orders("1f1b", stages, micro_batches)
    passes = {
        "1f1b": [in_order(order, s, stages, 2.0, 3.0) for s, order in enumerate(alternating)],
        "interleaved": [interleaved(s, stages, micro_batches, pieces, 2.0, 3.0) for s in range(stages)],
        "zb-h1": [zero_bubble(order, s, stages, 1.5) for s, order in enumerate(alternating)],
    }
    for name, ranks in passes.items():
        seconds = (1.5, 1.5, 1.5) if name == "zb-h1" else (2.0, 1.0, 2.0)
        found = drawn(orders(name, stages, micro_batches, pieces), *seconds)
        took, peaks = played(ranks)
        assert found.seconds == pytest.approx(took), name
        assert [peak * (pieces if name == "interleaved" else 1) for peak in found.peaks] == peaks, name
        assert found.bubble == pytest.approx(1 - micro_batches * sum(seconds) / took), name


def test_the_figure_refuses_what_cannot_be_played() -> None:
    with pytest.raises(ValueError, match="wait for each other for ever"):
        drawn([["F0", "B0"], ["B0", "F0"]], 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="4 stages do not divide 6 micro-batches"):
        figure("interleaved", 4, 6)
