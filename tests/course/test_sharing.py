"""The picture of who computes what under a causal mask."""

from __future__ import annotations

import pytest

from courselib.sharing import causal_work


@pytest.mark.parametrize(("step", "pairs"), [(1, (36, 100, 164, 228)), (4, (120, 128, 136, 144))])
def test_each_ranks_pairs_are_counted(step: int, pairs: tuple[int, ...]) -> None:
    """Consecutive positions, and positions that are dealt out like cards."""
    picture = causal_work(lambda x, n: list(x.chunk(n, 2)) if step == 1 else [x[:, :, r::n] for r in range(n)], 4, 8)
    for rank, count in enumerate(pairs):
        assert f"rank {rank}: {count} pairs, {count / 132:.2f} times the mean" in picture.svg
