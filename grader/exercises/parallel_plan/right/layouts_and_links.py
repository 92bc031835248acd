"""Objects for links, groups and layouts. What memory rules out is dropped before time is looked at."""

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from grader.planning import ClusterSpec, ModelSpec, Plan


@dataclass(frozen=True)
class Link:
    latency: float
    bandwidth: float

    def message(self, size):
        return self.latency + size / self.bandwidth


@dataclass(frozen=True)
class Group:
    """`ranks` devices, spread over `span` neighbors, with `nics` NICs on each of their nodes."""

    ranks: int
    link: Link

    @staticmethod
    def of(cluster, ranks, span, nics=1):
        if cluster.devices_per_node % span == 0:
            return Group(ranks, Link(cluster.node_latency, cluster.node_bandwidth))
        bandwidth = min(cluster.node_bandwidth, nics * cluster.network_bandwidth)
        return Group(ranks, Link(cluster.network_latency, bandwidth))

    def reduce_scatter(self, size):
        return sum_of(self.ranks - 1, self.link.message(size / self.ranks))

    all_gather = reduce_scatter

    def all_reduce(self, size):
        return self.reduce_scatter(size) + self.all_gather(size)


def sum_of(times, seconds):
    return times * seconds


class Layout:
    """Who does what: everything of a plan that does not depend on micro-batches, ZeRO and recomputing."""

    def __init__(self, model, cluster, dp, tp, pp):
        self.model, self.cluster = model, cluster
        self.dp, self.tp, self.pp = dp, tp, pp
        self.depth = model.layers // pp

    @cached_property
    def parameters(self):
        m = self.model
        return (12 * m.hidden**2 * self.depth + m.vocabulary * m.hidden) / self.tp

    @cached_property
    def tensor_group(self):
        return Group.of(self.cluster, self.tp, self.tp, gcd(self.tp, self.cluster.devices_per_node))

    @cached_property
    def pipeline_group(self):
        return Group.of(self.cluster, self.pp, self.tp * self.pp)

    @cached_property
    def gradient_seconds(self):
        """One reduce-scatter or all-gather of 2 N bytes."""
        nics = max(1, self.cluster.devices_per_node // (self.tp * self.pp))
        return Group.of(self.cluster, self.dp, self.cluster.devices, nics).reduce_scatter(2 * self.parameters)

    def states(self, zero):
        whole = {0: 16, 1: 4, 2: 2, 3: 0}[zero]
        return self.parameters * (whole + (16 - whole) / self.dp)

    def activations(self, tokens, micro_batches, recompute):
        m = self.model
        row = tokens * m.hidden / self.tp
        layer = 34 * row
        layers_kept = self.depth * min(self.pp, micro_batches)
        return layers_kept * 2 * row + layer if recompute else layers_kept * layer

    def slot(self, tokens, recompute):
        m = self.model
        layer = tokens * (24 * m.hidden**2 + 4 * m.sequence * m.hidden) * (4 if recompute else 3)
        layer += tokens * 2 * m.sequence * m.hidden
        seconds = (layer * self.depth + 6 * tokens * m.hidden * m.vocabulary) / (self.tp * self.cluster.flops)
        collectives = self.depth * (14 if recompute else 10)
        seconds += collectives * self.tensor_group.reduce_scatter(2 * tokens * m.hidden)
        if self.pp > 1:
            seconds += 2 * self.pipeline_group.link.message(2 * tokens * m.hidden / self.tp)
        return seconds

    def choices(self):
        """(seconds, plan) of all plans of this layout that fit."""
        sequences = self.model.batch // self.dp
        for micro_batches in divisors_of(sequences):
            tokens = sequences // micro_batches * self.model.sequence
            slots = micro_batches + self.pp - 1
            for recompute in (False, True):
                room = self.cluster.memory - self.activations(tokens, micro_batches, recompute)
                stages = [zero for zero in (0, 1, 2, 3) if self.states(zero) <= room]
                if not stages:
                    continue
                slot = self.slot(tokens, recompute)
                for zero in stages:
                    each, after = {0: (0, 2), 1: (0, 2), 2: (1, 1), 3: (3, 0)}[zero]
                    seconds = slots * (slot + each * self.gradient_seconds) + after * self.gradient_seconds
                    yield seconds, Plan(self.dp, self.tp, self.pp, micro_batches, zero, recompute)


def divisors_of(number):
    found, d = set(), 1
    while d * d <= number:
        if number % d == 0:
            found.update((d, number // d))
        d += 1
    return found


def layouts(model, cluster):
    widths = divisors_of(model.heads) & divisors_of(cluster.devices)
    for tp in widths:
        for pp in divisors_of(model.layers) & divisors_of(cluster.devices // tp):
            dp = cluster.devices // tp // pp
            if model.batch % dp == 0:
                yield Layout(model, cluster, dp, tp, pp)


def plan(model: ModelSpec, cluster: ClusterSpec) -> Plan:
    every = (choice for layout in layouts(model, cluster) for choice in layout.choices())
    return min(every, key=lambda choice: choice[0])[1]
