"""The scheduler whose utilization others are compared with: the three rules, and backfill in queue order.

Backfill in queue order with one reservation is EASY (Lifka 1995; Mu'alem and Feitelson 2001, section 2).
"""

from __future__ import annotations

from typing import Any

from grader.exercises.gang_scheduler import rules
from grader.scheduling import Job
from grader.scheduling.cluster import Cluster


def place(cluster: Cluster, job: Job) -> list[str]:
    """Nodes for a job: the fullest rack that holds all of it, otherwise the emptiest racks."""
    racks = sorted((free for free in cluster.free if free), key=len)
    for free in racks:
        if len(free) >= job.nodes:
            return sorted(free)[: job.nodes]
    return [node for free in reversed(racks) for node in sorted(free)][: job.nodes]


def act(cluster: Cluster, backfills: bool = True) -> list[list[Any]]:
    """Carry out what the rules want now, and return the actions."""
    done: list[list[Any]] = []

    def carry_out(*action: Any) -> None:
        done.append(list(action))
        cluster.carry_out(action)

    def start(job: Job) -> None:
        carry_out("start", job.id, place(cluster, job))

    while True:
        if able := rules.could_start(cluster):
            for run in rules.victims(cluster, able[0]) or ():
                carry_out("preempt", run.job.id)
            start(able[0])
            continue
        queue = list(rules.waiting(cluster))
        if queue and queue[0].nodes <= cluster.free_nodes:
            start(queue[0])
            continue
        if not backfills or len(queue) < 2 or not cluster.free_nodes:
            return done
        first = rules.reservation(cluster, queue[0])
        fit = (job for job in queue[1:] if job.nodes <= cluster.free_nodes)
        behind = next((job for job in fit if rules.may_go_before(cluster, job, first)), None)
        if behind is None:
            return done
        start(behind)


def utilization(cluster: Cluster) -> float:
    """The share of all nodes' time, up to the last finish, that jobs which finished were at work."""
    return cluster.worked / (len(cluster.rack_of) * max(cluster.finish.values(), default=1.0))


def run(cluster: Cluster) -> Cluster:
    """Play a cluster to its end."""
    while cluster.next() is not None:
        act(cluster)
    return cluster
