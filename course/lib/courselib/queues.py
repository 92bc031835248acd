"""A cluster's queue in virtual time: jobs that want nodes together, and policies that say which one starts next."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from courselib.timeline import Box


@dataclass(frozen=True)
class Job:
    """Wants `nodes` for `hours`, from the hour `at` on."""

    name: str
    nodes: int
    hours: float
    at: float = 0.0


Running = Sequence[tuple[float, int]]  # until when, and how many nodes
Policy = Callable[[Sequence[Job], int, Running, float], Job | None]  # the queue, free nodes, what runs, the hour


@dataclass(frozen=True)
class Schedule:
    """When each job began, and on which nodes of how many."""

    nodes: int
    started: dict[Job, tuple[float, tuple[int, ...]]]

    @property
    def end(self) -> float:
        return max(began + job.hours for job, (began, _) in self.started.items())

    @property
    def utilization(self) -> float:
        """Node hours of all jobs over those of the cluster up to the end."""
        return sum(job.nodes * job.hours for job in self.started) / (self.nodes * self.end)

    def waits(self, least: int = 0) -> list[float]:
        """How long each job waited, in hours; of those that want at least so many nodes."""
        return [began - job.at for job, (began, _) in self.started.items() if job.nodes >= least]

    @property
    def rows(self) -> dict[str, list[Box]]:
        """For `timeline`, a row for each node. A job's size decides its look."""
        rows: dict[str, list[Box]] = {f"node {number}": [] for number in range(self.nodes)}
        for job, (began, nodes) in self.started.items():
            for number in nodes:
                rows[f"node {number}"].append((began, began + job.hours, job.name, says(job.nodes)))
        return {name: sorted(boxes) for name, boxes in rows.items()}


def says(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def scheduled(jobs: Sequence[Job], nodes: int, policy: Policy) -> Schedule:
    """Runs all jobs. The policy is asked again and again, whenever a job comes or ends, until it says None."""
    coming = sorted(jobs, key=lambda job: job.at)
    queue: list[Job] = []
    running: list[tuple[float, tuple[int, ...]]] = []
    free, started, now = set(range(nodes)), {}, 0.0
    while coming or queue or running:
        now = min([until for until, _ in running] + [job.at for job in coming[:1]])
        for until, there in list(running):
            if until <= now:
                running.remove((until, there))
                free |= set(there)
        while coming and coming[0].at <= now:
            queue.append(coming.pop(0))
        while job := policy(queue, len(free), [(until, len(there)) for until, there in running], now):
            there = tuple(sorted(free)[: job.nodes])
            queue.remove(job)
            free -= set(there)
            running.append((now + job.hours, there))
            started[job] = now, there
    return Schedule(nodes, started)


def pod_by_pod(jobs: Sequence[Job], nodes: int) -> dict[Job, int]:
    """How many nodes each job holds when pods are placed one by one, in turn, and nobody gives any back."""
    held = dict.fromkeys(jobs, 0)
    while sum(held.values()) < nodes and any(held[job] < job.nodes for job in jobs):
        for job in jobs:
            if held[job] < job.nodes and sum(held.values()) < nodes:
                held[job] += 1
    return held


def drawn(count: int, nodes: int, seed: int = 0, load: float = 1.0) -> list[Job]:
    """Jobs as GPU clusters see them: most are small, a few are large and have most of the node hours.

    Sizes are powers of two, durations log-normal (as in the traces of Jeon et al., ATC 2019, and Hu et al., SC 2021:
    the shape, not their numbers). `load`: node hours that come for each that there is.
    """
    draw = random.Random(seed)
    jobs, work = [], 0.0
    for number in range(count):
        size = draw.choices([1, 2, 4, 8, nodes * 3 // 4], [45, 20, 15, 12, 8])[0]
        hours = min(48.0, draw.lognormvariate(0.7, 1.0))
        jobs.append(Job(str(number + 1), size, round(hours, 2), round(work / (nodes * load), 2)))
        work += size * hours
    return jobs
