"""An object that knows what a plan costs; all of them sorted by time, and the first that fits."""

from collections import namedtuple
from math import gcd

Way = namedtuple("Way", "dp tp pp micro_batches zero_stage recompute")

EACH = {0: 0, 1: 0, 2: 1, 3: 3}
LAST = {0: 2, 1: 2, 2: 1, 3: 0}


class Cost:
    def __init__(self, model, cluster, way):
        self.model, self.cluster, self.way = model, cluster, way
        self.tokens = model.sequence * (model.batch // (way.dp * way.micro_batches))
        self.layers = model.layers // way.pp
        self.parameters = (12 * model.hidden**2 * self.layers + model.vocabulary * model.hidden) / way.tp

    def message(self, size, span, nics=1):
        c = self.cluster
        if c.devices_per_node % span:
            return c.network_latency + size / min(c.node_bandwidth, nics * c.network_bandwidth)
        return c.node_latency + size / c.node_bandwidth

    def all_gather(self, size, ranks, span, nics):
        return self.message(size / ranks, span, nics) * (ranks - 1)

    def seconds(self):
        m, c, way = self.model, self.cluster, self.way
        one_token = 24 * m.hidden**2 + 4 * m.sequence * m.hidden
        passes = 4 if way.recompute else 3
        one_layer = passes * one_token + 2 * m.sequence * m.hidden
        slot = self.tokens * (self.layers * one_layer + 6 * m.hidden * m.vocabulary) / way.tp / c.flops
        boundary = 2 * self.tokens * m.hidden
        rounds = 14 if way.recompute else 10
        slot += rounds * self.layers * self.all_gather(boundary, way.tp, way.tp, gcd(way.tp, c.devices_per_node))
        if way.pp != 1:
            slot += 2 * self.message(boundary / way.tp, way.tp * way.pp)
        nics = max(c.devices_per_node // (way.tp * way.pp), 1)
        shard = self.all_gather(2 * self.parameters, way.dp, c.devices, nics)
        slot += EACH[way.zero_stage] * shard
        idle = way.pp - 1
        return way.micro_batches * slot + idle * slot + LAST[way.zero_stage] * shard

    def bytes(self):
        m, way = self.model, self.way
        cut = [way.dp if way.zero_stage >= least else 1 for least in (3, 2, 1)]
        states = self.parameters * (2 / cut[0] + 2 / cut[1] + 12 / cut[2])
        layer = self.tokens * 34 * m.hidden / way.tp
        in_flight = min(way.pp, way.micro_batches) * self.layers
        if way.recompute:
            return states + in_flight * 2 * self.tokens * m.hidden / way.tp + layer
        return states + in_flight * layer


def ways(model, cluster):
    n = cluster.devices
    for tp in range(1, min(model.heads, n) + 1):
        if model.heads % tp or n % tp:
            continue
        for pp in range(1, model.layers + 1):
            if model.layers % pp or n % (tp * pp):
                continue
            dp = n // tp // pp
            for size in range(1, model.batch // dp + 1):
                if model.batch % (dp * size) == 0:
                    for stage in (3, 2, 1, 0):
                        yield Way(dp, tp, pp, model.batch // (dp * size), stage, True)
                        yield Way(dp, tp, pp, model.batch // (dp * size), stage, False)


def plan(model, cluster):
    costs = sorted((Cost(model, cluster, way) for way in ways(model, cluster)), key=Cost.seconds)
    return next(cost.way for cost in costs if cost.bytes() <= cluster.memory)
