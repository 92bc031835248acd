"""Generators of legal plans and one function for each cost; the least of all by a key."""

from collections.abc import Iterator
from math import gcd

from grader.planning import ClusterSpec, ModelSpec, Plan


def divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def legal_plans(model: ModelSpec, cluster: ClusterSpec) -> Iterator[Plan]:
    for tp in divisors(model.heads):
        for pp in divisors(model.layers):
            dp, left_over = divmod(cluster.devices, tp * pp)
            if dp == 0 or left_over or model.batch % dp:
                continue
            for micro_batches in divisors(model.batch // dp):
                for zero_stage in range(4):
                    for recompute in (False, True):
                        yield Plan(dp, tp, pp, micro_batches, zero_stage, recompute)


def held_parameters(model: ModelSpec, plan: Plan) -> float:
    layers = 12 * model.hidden**2 * model.layers / plan.pp
    return (layers + model.vocabulary * model.hidden) / plan.tp


def memory_bytes(model: ModelSpec, cluster: ClusterSpec, plan: Plan) -> float:
    shards_from_stage = ((3, 2), (2, 2), (1, 12))  # parameters, gradients, Adam: the stage that shards it, its bytes
    states = sum(size / plan.dp if plan.zero_stage >= stage else size for stage, size in shards_from_stage)

    tokens = model.sequence * model.batch / (plan.dp * plan.micro_batches)
    one_layer = 34 * tokens * model.hidden / plan.tp
    kept = 2 * tokens * model.hidden / plan.tp if plan.recompute else one_layer
    in_flight = min(plan.pp, plan.micro_batches)
    activations = in_flight * model.layers / plan.pp * kept + (one_layer if plan.recompute else 0)
    return held_parameters(model, plan) * states + activations


def link(cluster: ClusterSpec, span: int, nics: int) -> tuple[float, float]:
    if cluster.devices_per_node % span == 0:
        return cluster.node_latency, cluster.node_bandwidth
    return cluster.network_latency, min(cluster.node_bandwidth, nics * cluster.network_bandwidth)


def one_way_seconds(cluster: ClusterSpec, size: float, ranks: int, span: int, nics: int) -> float:
    latency, bandwidth = link(cluster, span, nics)
    return (ranks - 1) * (latency + size / ranks / bandwidth)


def step_seconds(model: ModelSpec, cluster: ClusterSpec, plan: Plan) -> float:
    tokens = model.sequence * model.batch / (plan.dp * plan.micro_batches)
    layers = model.layers / plan.pp
    boundary = 2 * tokens * model.hidden  # bytes between two layers

    forward = layers * tokens * (24 * model.hidden**2 + 4 * model.sequence * model.hidden)
    logits = 6 * tokens * model.hidden * model.vocabulary
    scores = layers * tokens * 2 * model.sequence * model.hidden
    compute = ((4 if plan.recompute else 3) * forward + scores + logits) / (plan.tp * cluster.flops)

    collectives = layers * (14 if plan.recompute else 10)
    nics = gcd(plan.tp, cluster.devices_per_node)
    tensor = collectives * one_way_seconds(cluster, boundary, plan.tp, plan.tp, nics)

    pipeline = 0.0
    if plan.pp > 1:
        latency, bandwidth = link(cluster, plan.tp * plan.pp, 1)
        pipeline = 2 * (latency + boundary / plan.tp / bandwidth)

    nics = max(1, cluster.devices_per_node // (plan.tp * plan.pp))
    one_way = one_way_seconds(cluster, 2 * held_parameters(model, plan), plan.dp, cluster.devices, nics)
    in_each_micro_batch, at_the_end = ((0, 2), (0, 2), (1, 1), (3, 0))[plan.zero_stage]

    slot = compute + tensor + pipeline + in_each_micro_batch * one_way
    return (plan.micro_batches + plan.pp - 1) * slot + at_the_end * one_way


def plan(model: ModelSpec, cluster: ClusterSpec) -> Plan:
    fitting = (
        candidate
        for candidate in legal_plans(model, cluster)
        if memory_bytes(model, cluster, candidate) <= cluster.memory
    )
    return min(fitting, key=lambda candidate: step_seconds(model, cluster, candidate))
