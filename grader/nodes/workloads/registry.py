"""All workloads, by name."""

from __future__ import annotations

from collections.abc import Mapping

from grader.nodes.workloads import kafka, transactions
from grader.nodes.workloads.counters import G_COUNTER, PN_COUNTER
from grader.nodes.workloads.lin_kv import LIN_KV
from grader.nodes.workloads.sets import BROADCAST, G_SET
from grader.nodes.workloads.simple import ECHO, UNIQUE_IDS
from grader.nodes.workloads.workload import Workload

WORKLOADS: Mapping[str, Workload] = {
    each.name: each
    for each in (
        ECHO,
        UNIQUE_IDS,
        BROADCAST,
        G_SET,
        G_COUNTER,
        PN_COUNTER,
        LIN_KV,
        *map(transactions.workload, transactions.WRITES),
        kafka.workload(),
    )
}
