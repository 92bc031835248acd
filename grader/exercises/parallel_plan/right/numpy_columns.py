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
    layer = tokens * h / tp * (34 + 5 * model.heads * s / h)
    flight = np.minimum(pp, m)
    activations = np.where(again == 1, flight * layers / pp * 2 * tokens * h / tp + layer, flight * layers / pp * layer)

    def link(span):
        inside = cluster.devices_per_node % span == 0
        return (
            np.where(inside, cluster.node_latency, cluster.network_latency),
            np.where(inside, cluster.node_bandwidth, cluster.network_bandwidth),
        )

    def ring(size, n, span):
        alpha, bandwidth = link(span)
        return (n - 1) * (alpha + size / (n * bandwidth))

    compute = (3 + again) * layers / pp * tokens * (24 * h * h + 4 * s * h) + 6 * tokens * h * model.vocabulary
    compute /= tp * cluster.flops
    tensor = (4 + 2 * again) * layers / pp * 2 * ring(2 * tokens * h, tp, tp)
    alpha, bandwidth = link(tp * pp)
    pipe = np.where(pp > 1, 2 * (alpha + 2 * tokens * h / tp / bandwidth), 0)
    shard = ring(2 * held, dp, dp * tp * pp)
    slot = compute + tensor + pipe + shard * np.select([stage == 2, stage == 3], [1, 3], 0)
    step = (m + pp - 1) * slot + shard * np.select([stage == 2, stage == 3], [1, 0], 2)
    step[states + activations > cluster.memory] = np.inf
    best = int(np.argmin(step))
    return Plan(dp[best], tp[best], pp[best], np.int64(m[best]), int(stage[best]), np.bool_(again[best]))
