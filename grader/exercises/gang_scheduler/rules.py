"""The scheduling rules, of a cluster as it is now: who is within quota, who is borrowed, who may go before the first.

All of them are read from a `Cluster`, and nothing is kept. Times compare within ROUNDING.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from grader.scheduling import Job
from grader.scheduling.cluster import Cluster, Run

ROUNDING = 1e-6  # seconds: what a sum of floats may lose


def waiting(cluster: Cluster) -> Iterator[Job]:
    """The queue, in order."""
    return (cluster.known[name] for _, name in cluster.queue)


def within_quota(cluster: Cluster, job: Job) -> bool:
    return cluster.used[job.team] + job.nodes <= cluster.quotas[job.team]


def borrowed(cluster: Cluster) -> list[Run]:
    """The running jobs that are borrowed, in the order in which they are taken."""
    found = []
    for team, quota in cluster.quotas.items():
        if cluster.used[team] <= quota:
            continue
        total = 0
        for run in sorted((r for r in cluster.running.values() if r.job.team == team), key=_importance):
            total += run.job.nodes
            if total > quota:
                found.append(run)
    return sorted(found, key=_importance, reverse=True)


def _importance(run: Run) -> tuple[int, int]:
    return -run.job.priority, run.number


def victims(cluster: Cluster, job: Job) -> list[Run] | None:
    """Whom a job within quota preempts: taken, then spared. None where nothing is ever enough.

    A team with a job within quota has no borrowed jobs, so all that are borrowed are of other teams.
    """
    free, taken = cluster.free_nodes, list[Run]()
    for run in borrowed(cluster):
        if free >= job.nodes:
            break
        taken.append(run)
        free += run.job.nodes
    if free < job.nodes:
        return None
    for run in reversed(taken[:]):
        if free - run.job.nodes >= job.nodes:
            taken.remove(run)
            free -= run.job.nodes
    return taken


def taken_first(cluster: Cluster, job: Job) -> list[Run]:
    """Who is taken before any is spared."""
    free, taken = cluster.free_nodes, list[Run]()
    for run in borrowed(cluster):
        if free >= job.nodes:
            break
        taken.append(run)
        free += run.job.nodes
    return taken


def could_start(cluster: Cluster) -> list[Job]:
    """The waiting jobs within quota that rule 1 starts, in queue order, each taken by itself."""
    jobs = [job for job in waiting(cluster) if within_quota(cluster, job)]
    if not jobs:
        return []
    most = cluster.free_nodes
    if any(job.nodes > most for job in jobs):
        most += sum(run.job.nodes for run in borrowed(cluster))
    return [job for job in jobs if job.nodes <= most]


class Reservation(NamedTuple):
    """When the first in the queue can start by the bounds of what runs (None: never), and the nodes free then."""

    job: Job
    at: float | None
    free: int


def reservation(cluster: Cluster, job: Job) -> Reservation:
    free = cluster.free_nodes
    if free >= job.nodes:
        return Reservation(job, cluster.now, free)
    ends = sorted((run.since + run.job.seconds, run.job.nodes) for run in cluster.running.values())
    for number, (end, nodes) in enumerate(ends):
        free += nodes
        if free >= job.nodes:
            free += sum(more for later, more in ends[number + 1 :] if later <= end + ROUNDING)
            return Reservation(job, end, free)
    return Reservation(job, None, free)


def may_go_before(cluster: Cluster, job: Job, first: Reservation) -> bool:
    """Rule 3, for a job that has enough free nodes."""
    if first.at is None or first.free - job.nodes >= first.job.nodes:
        return True
    return cluster.now + job.seconds <= first.at + ROUNDING
