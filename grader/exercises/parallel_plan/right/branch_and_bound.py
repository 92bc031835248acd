"""Candidates sorted by their time without ZeRO's messages. The search ends when that alone is too slow."""

import heapq
import itertools
import math
from typing import NamedTuple

from grader.planning import ClusterSpec, ModelSpec, Plan


class Candidate(NamedTuple):
    bound: float  # seconds of the step without ZeRO's messages
    number: int
    dp: int
    tp: int
    pp: int
    micro_batches: int
    recompute: bool
    activations: float


def factors(number):
    """Its prime factors, with repetition."""
    p = 2
    while p * p <= number:
        while number % p == 0:
            yield p
            number //= p
        p += 1
    if number > 1:
        yield number


def divisors(number):
    found = {1}
    for p in factors(number):
        found |= {p * d for d in found}
    return sorted(found)


class Planner:
    def __init__(self, model, cluster):
        self.model = model
        self.cluster = cluster

    def link(self, span, nics):
        c = self.cluster
        if c.devices_per_node % span == 0:
            return c.node_latency, c.node_bandwidth
        return c.network_latency, min(c.node_bandwidth, nics * c.network_bandwidth)

    def message(self, size, span, nics=1):
        latency, bandwidth = self.link(span, nics)
        return latency + size / bandwidth

    def ring(self, size, ranks, span, nics):
        """A reduce-scatter, or an all-gather."""
        return 0.0 if ranks == 1 else (ranks - 1) * self.message(size / ranks, span, nics)

    def held(self, tp, pp):
        m = self.model
        return (12 * m.hidden**2 * m.layers / pp + m.vocabulary * m.hidden) / tp

    def candidates(self):
        m, c = self.model, self.cluster
        number = itertools.count()
        for tp, pp in itertools.product(divisors(m.heads), divisors(m.layers)):
            if c.devices % (tp * pp):
                continue
            dp = c.devices // (tp * pp)
            if m.batch % dp:
                continue
            depth = m.layers / pp
            for micro_batches, recompute in itertools.product(divisors(m.batch // dp), (False, True)):
                t = m.batch / dp / micro_batches * m.sequence
                forward = t * (24 * m.hidden**2 + 4 * m.sequence * m.hidden)
                layers = (3 + recompute) * forward + t * 2 * m.sequence * m.hidden
                computing = depth * layers + 6 * t * m.hidden * m.vocabulary
                slot = computing / (tp * c.flops)
                nics = math.gcd(tp, c.devices_per_node)
                slot += (14 if recompute else 10) * depth * self.ring(2 * t * m.hidden, tp, tp, nics)
                if pp > 1:
                    slot += 2 * self.message(2 * t * m.hidden / tp, tp * pp)
                layer = 34 * t * m.hidden / tp
                kept = depth * min(pp, micro_batches)
                activations = kept * 2 * t * m.hidden / tp + layer if recompute else kept * layer
                bound = (micro_batches + pp - 1) * slot
                yield Candidate(bound, next(number), dp, tp, pp, micro_batches, recompute, activations)

    def best(self):
        queue = list(self.candidates())
        heapq.heapify(queue)
        best_seconds, best_plan = float("inf"), None
        while queue and queue[0].bound < best_seconds:
            x = heapq.heappop(queue)
            n = self.held(x.tp, x.pp)
            nics = max(1, self.cluster.devices_per_node // (x.tp * x.pp))
            ring = self.ring(2 * n, x.dp, self.cluster.devices, nics)
            slots = x.micro_batches + x.pp - 1
            for stage in range(4):
                bytes_a_parameter = sum(
                    size / x.dp if stage >= first else size for size, first in ((12, 1), (2, 2), (2, 3))
                )
                if bytes_a_parameter * n + x.activations > self.cluster.memory:
                    continue
                seconds = x.bound + ring * (2, 2, slots + 1, 3 * slots)[stage]
                if seconds < best_seconds:
                    best_seconds = seconds
                    best_plan = Plan(
                        dp=x.dp,
                        tp=x.tp,
                        pp=x.pp,
                        micro_batches=x.micro_batches,
                        zero_stage=stage,
                        recompute=x.recompute,
                    )
        if best_plan is None:
            raise ValueError("nothing fits")
        return best_plan


def plan(model: ModelSpec, cluster: ClusterSpec) -> Plan:
    return Planner(model, cluster).best()
