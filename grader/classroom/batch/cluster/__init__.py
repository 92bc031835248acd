"""A class graded on the machines of a Ray cluster.

rankup ── pool ── lines of JSON ── driver ── Ray ── slot ── lines of JSON ── worker
└─ a process ─┘                  └─ another ─┘      └─ for each processor of the cluster ─┘
"""

from grader.classroom.batch.cluster.pool import ClusterPool, open_pool

__all__ = ["ClusterPool", "open_pool"]
