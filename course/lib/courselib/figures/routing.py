"""Experts on ranks: what a skewed router leaves each rank to do, what a capacity drops, and what dispatch sends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from courselib.figures.shown import figure
from courselib.plot import bars

TOKENS, HIDDEN, BYTES = 4096, 4096, 2  # of a rank, of a token, of a number


@dataclass(frozen=True)
class Routed:
    """Pairs (token, expert) that each rank computes and drops, over the mean of all ranks; bytes of one dispatch.

    `sent` is what a rank sends on average, `received` what the fullest rank receives, both without its own pairs and
    before anything is dropped.
    """

    kept: list[float]
    dropped: list[float]
    sent: float
    received: float

    @property
    def useful(self) -> float:
        """The share of time in which a rank computes, on average, if all wait for the fullest one."""
        return sum(self.kept) / len(self.kept) / max(self.kept)

    @property
    def lost(self) -> float:
        return sum(self.dropped) / len(self.dropped)


def routed(experts: int, ranks: int, k: int, skew: float, capacity: float) -> Routed:
    """Of a router whose favor falls evenly: expert i gets a share of all pairs in proportion to exp(-skew i / experts).

    Neighbors are on the same rank. An expert takes at most `capacity` times the mean of all experts, 0: any number.
    """
    favor = [math.exp(-skew * i / experts) for i in range(experts)]
    loads = [each * experts / sum(favor) for each in favor]  # over the mean of all experts
    each = experts // ranks
    on = [loads[rank * each : (rank + 1) * each] for rank in range(ranks)]
    kept = [sum(min(load, capacity or load) for load in loads) / each for loads in on]
    asked = [sum(loads) / each for loads in on]
    whole = k * TOKENS * HIDDEN * BYTES * (ranks - 1) / ranks
    return Routed(kept, [a - b for a, b in zip(asked, kept, strict=True)], whole, whole * max(asked))


def routing(experts: int = 64, ranks: int = 8, k: int = 2, skew: float = 2.0, capacity: float = 0.0) -> Any:
    """The load of each rank under a router that prefers some experts; `capacity` 0 drops nothing."""
    found = routed(experts, ranks, k, skew, capacity)
    still = bars("Load of a rank, over the mean", {f"rank {rank}": load for rank, load in enumerate(found.kept)})
    return figure(
        "routing",
        still,
        question="Which of the five sliders change the share of time in which the ranks compute? What does a capacity "
        "of 1.25 buy at skew 2, and what does it cost?",
        answer="The skew, the capacity, and a little the number of ranks. More experts do not help: neighbors share "
        "the router's taste, so they do not average out. k only changes the bytes. At skew 2 the 8 ranks compute 49 % "
        "of the time. A capacity of 1.25 makes it 68 %, and 15 % of all pairs are dropped.",
        experts=experts, ranks=ranks, k=k, skew=skew, capacity=capacity,
    )  # fmt: skip
