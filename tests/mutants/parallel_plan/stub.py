"""Nothing is written yet.

check: legal
kind: crash
"""

from grader.planning import ClusterSpec, ModelSpec, Plan


def plan(model: ModelSpec, cluster: ClusterSpec) -> Plan:
    raise NotImplementedError()
