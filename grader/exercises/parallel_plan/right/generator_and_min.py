"""Brute force: a generator of all legal plans, two formulas, and min."""

from collections.abc import Iterator
from functools import lru_cache
from math import gcd, isqrt

from grader.planning import ClusterSpec, ModelSpec, Plan


@lru_cache(maxsize=None)
def divisors(number: int) -> list[int]:
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def legal_plans(model: ModelSpec, cluster: ClusterSpec) -> Iterator[Plan]:
    for tp in divisors(model.heads):
        for pp in divisors(model.layers):
            if cluster.devices % (tp * pp):
                continue
            dp = cluster.devices // (tp * pp)
            if model.batch % dp:
                continue
            for micro_batches in divisors(model.batch // dp):
                for zero_stage in range(4):
                    for recompute in (False, True):
                        yield Plan(dp, tp, pp, micro_batches, zero_stage, recompute)


def held_parameters(model: ModelSpec, plan: Plan) -> float:
    return (12 * model.hidden**2 * model.layers / plan.pp + model.vocabulary * model.hidden) / plan.tp


def tokens(model: ModelSpec, plan: Plan) -> float:
    return model.batch / (plan.dp * plan.micro_batches) * model.sequence


def memory_bytes(model: ModelSpec, cluster: ClusterSpec, plan: Plan) -> float:
    n = held_parameters(model, plan)
    states = 2 * n / (plan.dp if plan.zero_stage >= 3 else 1)
    states += 2 * n / (plan.dp if plan.zero_stage >= 2 else 1)
    states += 12 * n / (plan.dp if plan.zero_stage >= 1 else 1)
    width = tokens(model, plan) * model.hidden / plan.tp
    layer = 34 * width
    in_flight = min(plan.pp, plan.micro_batches)
    if plan.recompute:
        return states + in_flight * (model.layers / plan.pp) * 2 * width + layer
    return states + in_flight * (model.layers / plan.pp) * layer


def link(cluster: ClusterSpec, span: int, nics: int) -> tuple[float, float]:
    if cluster.devices_per_node % span == 0:
        return cluster.node_latency, cluster.node_bandwidth
    return cluster.network_latency, min(cluster.node_bandwidth, nics * cluster.network_bandwidth)


def one_way_seconds(cluster: ClusterSpec, size: float, ranks: int, span: int, nics: int) -> float:
    latency, bandwidth = link(cluster, span, nics)
    return (ranks - 1) * (latency + size / ranks / bandwidth)


def step_seconds(model: ModelSpec, cluster: ClusterSpec, plan: Plan) -> float:
    t, h = tokens(model, plan), model.hidden
    layers = model.layers / plan.pp
    passes, collectives = (4, 14) if plan.recompute else (3, 10)
    flops = layers * t * (passes * (24 * h**2 + 4 * model.sequence * h) + 2 * model.sequence * h)
    flops += 6 * t * h * model.vocabulary
    slot = flops / (plan.tp * cluster.flops)
    nics = gcd(plan.tp, cluster.devices_per_node)
    slot += collectives * layers * one_way_seconds(cluster, 2 * t * h, plan.tp, plan.tp, nics)
    if plan.pp > 1:
        latency, bandwidth = link(cluster, plan.tp * plan.pp, 1)
        slot += 2 * (latency + 2 * t * h / plan.tp / bandwidth)
    nics = max(1, cluster.devices_per_node // (plan.tp * plan.pp))
    zero = one_way_seconds(cluster, 2 * held_parameters(model, plan), plan.dp, cluster.devices, nics)
    slot += (0, 0, 1, 3)[plan.zero_stage] * zero
    return (plan.micro_batches + plan.pp - 1) * slot + (2, 2, 1, 0)[plan.zero_stage] * zero


def plan(model: ModelSpec, cluster: ClusterSpec) -> Plan:
    fitting = (p for p in legal_plans(model, cluster) if memory_bytes(model, cluster, p) <= cluster.memory)
    return min(fitting, key=lambda p: step_seconds(model, cluster, p))
