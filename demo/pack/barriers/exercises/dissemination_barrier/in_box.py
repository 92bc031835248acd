"""Has a rank come to the barrier when its seconds are over. It decides nothing."""

from __future__ import annotations

from collections.abc import Callable

from grader.ranks.model import compute


def come(dissemination_barrier: Callable[[], None], seconds: float) -> None:
    compute(seconds)
    dissemination_barrier()
