"""Settles stage and recomputing by reasoning: of the ZeRO stages only 1, 2 and 3 matter, and of the numbers of
micro-batches only a few. Plans of one shape are tried from cheap to dear, and dropped when they cannot win."""

import math
from types import SimpleNamespace


def divisors(number):
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def shapes(model, cluster):
    """(dp, tp, pp), with those first that are likely to be good."""
    found = []
    for tp in divisors(math.gcd(model.heads, cluster.devices)):
        for pp in divisors(math.gcd(model.layers, cluster.devices // tp)):
            dp = cluster.devices // (tp * pp)
            if math.gcd(dp, model.batch) == dp:
                found.append((dp, tp, pp))
    return sorted(found, key=lambda shape: (shape[1] > cluster.devices_per_node, shape[2]))


def plan(model, cluster):
    h, s = model.hidden, model.sequence
    best, best_time = None, math.inf
    work = 24 * h * h + 4 * s * h

    def hop(span, nics=1):
        if cluster.devices_per_node % span == 0:
            return cluster.node_latency, 1 / cluster.node_bandwidth
        return cluster.network_latency, max(1 / cluster.node_bandwidth, 1 / (nics * cluster.network_bandwidth))

    for dp, tp, pp in shapes(model, cluster):
        layers = model.layers // pp
        all_tokens = model.batch // dp * s
        # no plan of this shape can take less than its computing
        floor = all_tokens * (3 * layers * work + 6 * h * model.vocabulary) / (tp * cluster.flops)
        if floor >= best_time:
            continue
        weights = (12 * h * h * layers + model.vocabulary * h) / tp
        alpha, beta = hop(cluster.devices, max(1, cluster.devices_per_node // (tp * pp)))
        exchange = (dp - 1) * (alpha + 2 * weights / dp * beta)
        alpha, beta = hop(tp, math.gcd(tp, cluster.devices_per_node))
        for m in divisors(model.batch // dp):
            tokens = all_tokens // m
            layer = tokens * 34 * h / tp
            gather = (tp - 1) * (alpha + 2 * tokens * h / tp * beta)
            send = 0
            if pp > 1:
                first, each = hop(tp * pp)
                send = 2 * first + 4 * tokens * h / tp * each
            for recompute in (False, True):
                one_layer = (4 if recompute else 3) * work + 2 * s * h
                slot = tokens * (layers * one_layer + 6 * h * model.vocabulary)
                slot = slot / (tp * cluster.flops) + send + (14 if recompute else 10) * layers * gather
                held = min(m, pp) * layers * (2 * tokens * h / tp if recompute else layer) + recompute * layer
                for stage, sizes, often, once in (
                    (1, 4 + 12 / dp, 0, 2),
                    (2, 2 + 14 / dp, 1, 1),
                    (3, 16 / dp, 3, 0),
                ):
                    time = (m + pp - 1) * (slot + often * exchange) + once * exchange
                    if held + sizes * weights <= cluster.memory and time < best_time:
                        best_time = time
                        best = SimpleNamespace(
                            dp=dp, tp=tp, pp=pp, micro_batches=m, zero_stage=stage, recompute=recompute
                        )
    return best
