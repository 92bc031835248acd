"""Nested loops with everything hoisted. A higher ZeRO stage is never faster, so the lowest that fits is taken."""

from math import gcd

from grader.planning import ClusterSpec, ModelSpec, Plan


def divisors(number):
    low, high, d = [], [], 1
    while d * d <= number:
        if number % d == 0:
            low.append(d)
            if d * d != number:
                high.append(number // d)
        d += 1
    return low + high[::-1]


def plan(model: ModelSpec, cluster: ClusterSpec) -> Plan:
    h, s, a, v = model.hidden, model.sequence, model.heads, model.vocabulary
    node = (cluster.node_latency, cluster.node_bandwidth)

    def link(span, nics=1):
        if cluster.devices_per_node % span == 0:
            return node
        return cluster.network_latency, min(cluster.node_bandwidth, nics * cluster.network_bandwidth)

    best_time, best = float("inf"), None
    for tp in divisors(a):
        if cluster.devices % tp:
            continue
        tp_latency, tp_bandwidth = link(tp, gcd(tp, cluster.devices_per_node))
        for pp in divisors(model.layers):
            dp, rest = divmod(cluster.devices, tp * pp)
            if rest or model.batch % dp:
                continue
            layers = model.layers / pp
            n = (12 * h * h * layers + v * h) / tp
            pp_latency, pp_bandwidth = link(tp * pp)
            dp_latency, dp_bandwidth = link(cluster.devices, max(1, cluster.devices_per_node // (tp * pp)))
            one_way = (dp - 1) * (dp_latency + 2 * n / dp / dp_bandwidth)
            states = {1: 4 * n + 12 * n / dp, 2: 2 * n + 14 * n / dp, 3: 16 * n / dp}
            for m in divisors(model.batch // dp):
                t = model.batch // (dp * m) * s
                slots = m + pp - 1
                a_layer = 34 * t * h / tp
                inputs = 2 * t * h / tp
                flight = min(pp, m)
                messages = 2 * (pp_latency + inputs / pp_bandwidth) if pp > 1 else 0.0
                gather = (tp - 1) * (tp_latency + 2 * t * h / tp / tp_bandwidth)
                head = 6 * t * h * v
                body = layers * t * (24 * h * h + 4 * s * h)
                scores = layers * t * 2 * s * h
                for recompute in (False, True):
                    if recompute:
                        activations = flight * layers * inputs + a_layer
                        slot = (4 * body + scores + head) / (tp * cluster.flops) + 14 * layers * gather + messages
                    else:
                        activations = flight * layers * a_layer
                        slot = (3 * body + scores + head) / (tp * cluster.flops) + 10 * layers * gather + messages
                    for stage, in_slot, at_end in ((1, 0, 2), (2, 1, 1), (3, 3, 0)):
                        if states[stage] + activations <= cluster.memory:
                            seconds = slots * (slot + in_slot * one_way) + at_end * one_way
                            if seconds < best_time:
                                best_time, best = seconds, (dp, tp, pp, m, stage, recompute)
                            break
    if best is None:
        raise ValueError("no plan fits")
    return Plan(*best)
