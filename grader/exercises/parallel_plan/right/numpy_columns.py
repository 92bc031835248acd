"""All plans as columns of numpy arrays, costed at once."""

import itertools

import numpy as np

from grader.planning import Plan


def plan(model, cluster):
    devices = np.arange(1, cluster.devices + 1)
    tps = [n for n in devices[devices <= model.heads] if model.heads % n == 0 and cluster.devices % n == 0]
    pps = [n for n in devices[devices <= model.layers] if model.layers % n == 0 and cluster.devices % n == 0]
    counts = [n for n in range(1, model.batch + 1) if model.batch % n == 0]
    grid = np.array(list(itertools.product(tps, pps, counts, range(4), (0, 1))), dtype=np.float64)
    tp, pp, m, stage, again = grid.T
    dp = cluster.devices / (tp * pp)
    keep = (dp == np.floor(dp)) & (dp >= 1)
    keep &= model.batch % np.where(keep, dp * m, 1) == 0
    tp, pp, m, stage, again, dp = (column[keep] for column in (tp, pp, m, stage, again, dp))

    h, s, layers = model.hidden, model.sequence, model.layers
    tokens = s * model.batch / (dp * m)
    held = (12 * h * h * layers / pp + model.vocabulary * h) / tp
    share = 1 / dp
    states = held * (
        2 * np.where(stage == 3, share, 1) + 2 * np.where(stage >= 2, share, 1) + 12 * np.where(stage >= 1, share, 1)
    )
    layer = 34 * tokens * h / tp
    flight = np.minimum(pp, m)
    activations = np.where(again == 1, flight * layers / pp * 2 * tokens * h / tp + layer, flight * layers / pp * layer)

    def link(span, nics):
        inside = cluster.devices_per_node % span == 0
        between = np.minimum(cluster.node_bandwidth, nics * cluster.network_bandwidth)
        return (
            np.where(inside, cluster.node_latency, cluster.network_latency),
            np.where(inside, cluster.node_bandwidth, between),
        )

    def ring(size, n, span, nics):
        alpha, bandwidth = link(span, nics)
        return (n - 1) * (alpha + size / (n * bandwidth))

    compute = layers / pp * tokens * ((3 + again) * (24 * h * h + 4 * s * h) + 2 * s * h)
    compute += 6 * tokens * h * model.vocabulary
    compute /= tp * cluster.flops
    tensor = (10 + 4 * again) * layers / pp * ring(2 * tokens * h, tp, tp, np.gcd(tp.astype(int), cluster.devices_per_node))
    alpha, bandwidth = link(tp * pp, 1)
    pipe = np.where(pp > 1, 2 * (alpha + 2 * tokens * h / tp / bandwidth), 0)
    shard = ring(2 * held, dp, dp * tp * pp, np.maximum(1, cluster.devices_per_node // (tp * pp)))
    slot = compute + tensor + pipe + shard * np.select([stage == 2, stage == 3], [1, 3], 0)
    step = (m + pp - 1) * slot + shard * np.select([stage == 2, stage == 3], [1, 0], 2)
    step[states + activations > cluster.memory] = np.inf
    best = int(np.argmin(step))
    return Plan(dp[best], tp[best], pp[best], np.int64(m[best]), int(stage[best]), np.bool_(again[best]))
