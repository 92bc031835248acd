"""All-reduce algorithms in the alpha-beta model, over the size of the tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from courselib.figures.shown import figure
from courselib.plot import plot
from courselib.svg import si

LOW, HIGH = 1e3, 1e10  # bytes: the axis


@dataclass(frozen=True)
class AllReduce:
    """One algorithm: its steps one after the other, seconds of an empty tensor and of each byte, and, in units of S,
    what the busiest rank sends, and how much of that stays on its node."""

    steps: float
    fixed: float
    each: float
    sent: float
    inside: float = 0.0

    def seconds(self, size: float) -> float:
        return self.fixed + size * self.each


def all_reduces(
    ranks: int, alpha: float, beta: float, group: int, node_alpha: float, node_beta: float
) -> dict[str, AllReduce]:
    """Four algorithms on `ranks` ranks, by name, for powers of two.

    A message of S bytes takes alpha + S x beta seconds; a rank sends one and receives one at a time. The first three
    take all links to be like that. The hierarchical one knows that `group` ranks share a node, inside of which a
    message takes node_alpha + S x node_beta: a ring reduce-scatter in the node, a ring all-reduce of each S/G with the
    ranks of the same place in the other nodes, a ring all-gather in the node. Formulas: Thakur, Rabenseifner and Gropp
    (2005); those of rings, and of trees without pipelining.
    """
    depth, g = math.log2(ranks), min(group, ranks)
    nodes = ranks / g
    ring, inner, outer = 2 * (ranks - 1) / ranks, 2 * (g - 1) / g, 2 * (nodes - 1) / nodes / g
    steps = 2 * (g - 1) + 2 * (nodes - 1)
    latency = 2 * (g - 1) * node_alpha + 2 * (nodes - 1) * alpha
    return {
        "ring": AllReduce(2 * (ranks - 1), 2 * (ranks - 1) * alpha, ring * beta, ring),
        "tree": AllReduce(2 * depth, 2 * depth * alpha, 2 * depth * beta, depth),
        "halving and doubling": AllReduce(2 * depth, 2 * depth * alpha, ring * beta, ring),
        "hierarchical": AllReduce(steps, latency, inner * node_beta + outer * beta, inner + outer, inner),
    }


def crossing(first: AllReduce, second: AllReduce) -> float | None:
    """The bytes from which on the second algorithm is faster; None if it never is, or always."""
    if second.each >= first.each or second.fixed <= first.fixed:
        return None
    return (second.fixed - first.fixed) / (first.each - second.each)


def collectives(
    ranks: int = 64,
    size: float = 1e6,
    *,
    alpha: float = 4e-6,
    bandwidth: float = 50e9,
    group: int = 8,
    node_alpha: float = 2e-6,
    node_bandwidth: float = 450e9,
) -> Any:
    """Time and bytes of four all-reduces; at first on nodes of eight H100, with a NIC of 50 GB/s for each.

    `ranks` and `group` (ranks in a node) are powers of two; sizes in bytes, latencies in seconds, bandwidths in bytes
    a second each way of a rank.
    """
    found = all_reduces(ranks, alpha, 1 / bandwidth, group, node_alpha, 1 / node_bandwidth)
    sizes = [LOW * (HIGH / LOW) ** (at / 40) for at in range(41)]
    still = plot(
        "All-reduce: time over the size of the tensor",
        {name: [(s, one.seconds(s)) for s in sizes] for name, one in found.items()},
        {f"{ranks} ranks, {si(size, 'B')}": [(size, one.seconds(size)) for one in found.values()]},
        x="size S of the tensor", y="seconds", units=("B", "s"), log="xy",
    )  # fmt: skip
    return figure(
        "collectives",
        still,
        question="From which size on is the ring faster than the tree? Double the ranks: does that size grow or "
        "shrink?",
        answer="With 64 ranks the ring is faster above 2.3 MB. That size grows with the ranks: doubling the "
        "ranks adds two steps to the tree, but it doubles the ring's steps. Halving and doubling has the "
        "tree's few steps and the ring's few bytes. In this model it is never slower than either of them."
        " Only an algorithm that knows the nodes is faster, and only for large tensors.",
        ranks=ranks, size=size, alpha=alpha, bandwidth=bandwidth, group=group, node_alpha=node_alpha,
        node_bandwidth=node_bandwidth,
    )  # fmt: skip
