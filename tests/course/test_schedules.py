"""Schedules as data: played in a small model of time, their length is the one of the literature."""

from __future__ import annotations

from typing import Any

import pytest

from courselib.schedules import Pass, in_order, interleaved, zero_bubble


def gpipe(micro_batches: int) -> list[str]:
    return [f"{kind}{number}" for kind in "FB" for number in range(micro_batches)]


def one_forward_one_backward(stage: int, stages: int, micro_batches: int) -> list[str]:
    warm_up = min(stages - stage - 1, micro_batches)
    order = [f"F{number}" for number in range(warm_up)]
    for number in range(micro_batches):
        if warm_up + number < micro_batches:
            order.append(f"F{warm_up + number}")
        order.append(f"B{number}")
    return order


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
    ranks = range(stages)
    one = [in_order(one_forward_one_backward(s, stages, micro_batches), s, stages) for s in ranks]
    took, peaks = played([in_order(gpipe(micro_batches), s, stages) for s in ranks])
    assert took == pytest.approx(3 * (micro_batches + stages - 1))
    assert peaks == [micro_batches] * stages
    took, peaks = played(one)
    assert took == pytest.approx(3 * (micro_batches + stages - 1))
    assert peaks == [min(stages - s, micro_batches) for s in ranks]


@pytest.mark.parametrize(("stages", "micro_batches", "pieces"), [(4, 8, 2), (4, 8, 4), (2, 4, 3), (8, 16, 2)])
def test_interleaving_divides_the_bubble_by_the_pieces(stages: int, micro_batches: int, pieces: int) -> None:
    took, _ = played([interleaved(s, stages, micro_batches, pieces) for s in range(stages)])
    assert took == pytest.approx(3 * micro_batches + 3 * (stages - 1) / pieces)


def test_interleaving_needs_micro_batches_in_groups() -> None:
    with pytest.raises(ValueError, match="4 stages do not divide 6 micro-batches"):
        interleaved(0, 4, 6, 2)


@pytest.mark.parametrize(("stages", "micro_batches"), [(4, 8), (2, 4), (8, 16)])
def test_zero_bubble_h1_leaves_a_third_and_keeps_no_more_than_1f1b(stages: int, micro_batches: int) -> None:
    orders = [one_forward_one_backward(s, stages, micro_batches) for s in range(stages)]
    took, peaks = played([zero_bubble(order, s, stages) for s, order in enumerate(orders)])
    assert took == pytest.approx(3 * micro_batches + stages - 1)
    assert max(peaks) == stages


def test_a_pass_names_its_seconds_and_neighbours() -> None:
    assert in_order(["F0", "B0"], 1, 3, 5.0, 7.0) == [["F0", "0", 5.0, [0], [2]], ["B0", "0", 7.0, [2], [0]]]
    assert in_order(["F0", "B0"], 0, 2) == [["F0", "0", 1.0, [], [1]], ["B0", "0", 2.0, [1], []]]
