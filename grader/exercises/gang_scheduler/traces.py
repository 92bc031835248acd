"""The clusters, jobs and failures that schedulers are tried with: built for one rule each, and drawn.

All times are whole multiples of an eighth of a second, so that sums of them are exact in floats, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.exercise import Draw
from grader.exercises.gang_scheduler.situations import SITUATIONS, Situation
from grader.scheduling.cluster import Cluster
from grader.worlds.cases import Case

Rng = np.random.Generator
TEAMS = ("vision", "speech", "search", "ads", "robots", "maps", "video", "language")
LOADED, MIXED, MIXED_FAILURES = "load", "mix", "mix with failures"  # groups of drawn traces, and how many
LOADS, MIXES, MIXES_WITH_FAILURES = 20, 8, 6
SIZES = ((1, 0.2), (2, 0.3), (4, 0.3), (8, 0.2))  # nodes, share of the jobs
LOAD_JOBS, LOAD_RACKS = 150, (4, 4, 4)
LONGEST = 1500 * 60.0


@dataclass(frozen=True)
class Trace:
    """A cluster and what will happen to it, as `Cluster` takes it."""

    group: str
    label: str
    racks: list[list[str]]
    quotas: dict[str, int]
    jobs: list[list[Any]]
    faults: list[list[Any]]

    def cluster(self) -> Cluster:
        """At its beginning."""
        return Cluster(self.racks, self.quotas, self.jobs, self.faults)

    @property
    def case(self) -> Case:
        data = {"racks": self.racks, "quotas": self.quotas, "jobs": self.jobs, "faults": self.faults}
        return Case(self.group, self.label, ((data,),), "Scheduler", expected=self, by="played")


def cases(draw: Draw) -> Iterator[Case]:
    """Every trace, all of them played in one world of one rank."""
    for number, situation in enumerate(SITUATIONS):
        yield _built(draw.generator(f"situation {number}"), situation).case
    for number in range(MIXES):
        yield _mixed(draw.generator(f"mix {number}"), f"mixed jobs {number}").case
    for number in range(MIXES_WITH_FAILURES):
        yield _mixed(draw.generator(f"failures {number}"), f"mixed jobs and failures {number}", failures=True).case
    for number in range(LOADS):
        yield _load(draw.generator(f"load {number}"), number).case


def _racks(rng: Rng, sizes: Sequence[int]) -> list[list[str]]:
    """Racks of so many nodes, whose names say nothing of the rack."""
    numbers = [int(number) for number in rng.permutation(np.arange(1, sum(sizes) + 1))]
    names = [f"n{number:02}" for number in numbers]
    return [[names.pop() for _ in range(size)] for size in sizes]


def _names(rng: Rng, many: int) -> list[str]:
    """Names of jobs, which do not tell the order of their submits."""
    return [f"j{number}" for number in rng.permutation(np.arange(10, 10 + many))]


def _built(rng: Rng, situation: Situation) -> Trace:
    """A situation with fresh names and another scale of time."""
    scale = float(rng.choice([1.0, 1.5, 2.0, 2.5, 4.0]))
    later = float(rng.integers(0, 40)) / 4
    letters = sorted({job[1] for job in situation.jobs} | set(situation.quotas))
    teams = dict(zip(letters, (TEAMS[i] for i in rng.permutation(len(TEAMS))), strict=False))
    fresh = _names(rng, len(situation.jobs))
    if situation.names:
        fresh.sort(reverse=situation.names < 0)
    names = dict(zip((job[0] for job in situation.jobs), fresh, strict=True))
    racks = _racks(rng, situation.racks)
    jobs: list[list[Any]] = [
        [at * scale + later, names[name], teams[team], nodes, priority, bound * scale, (actual or bound) * scale]
        for name, team, at, nodes, priority, bound, actual in situation.jobs
    ]
    faults: list[list[Any]] = []
    for at, until, target in situation.faults:
        which = names[target] if isinstance(target, str) else racks[target[0]][target[1]]
        faults.append([at * scale + later, until * scale + later, which])
    quotas = {teams[letter]: situation.quotas[letter] for letter in situation.quotas}
    return Trace(situation.group, situation.label, racks, quotas, jobs, faults)


def _mixed(rng: Rng, label: str, failures: bool = False) -> Trace:
    """A small cluster with racks of different sizes, and jobs of all sizes, many of which are preempted.

    Where nodes fail, a job on them belongs to a team whose quota is enough for all of its jobs, so that it is never
    preempted: whether it then is still first in the queue is another question.
    """
    sizes = [int(size) for size in rng.integers(1, 5, int(rng.integers(2, 5)))]
    total = sum(sizes)
    racks, names = _racks(rng, sizes), _names(rng, 40)
    teams = [TEAMS[i] for i in rng.permutation(len(TEAMS))[:3]]
    left, quotas = total, dict[str, int]()
    safe = teams[0] if failures and total >= 4 else ""
    if safe:
        quotas[safe] = 3
        left -= 3
    for team in teams[1:] if safe else teams:
        quotas[team] = int(rng.integers(0, left + 1)) if left else 0
        left -= quotas[team]
    jobs: list[list[Any]] = []
    at = 0.0
    for _ in range(30):
        at += float(rng.integers(0, 5)) if rng.random() < 0.7 else 0.0
        team = str(rng.choice(teams[1:] if safe else teams))
        nodes = min(total, int(rng.integers(1, 4 if rng.random() < 0.7 else total + 1)))
        actual = float(rng.integers(1, 12))
        bound = actual + float(rng.integers(0, 8))
        jobs.append([at, names.pop(), team, nodes, int(rng.integers(0, 4)), bound, actual])
    faults: list[list[Any]] = []
    if failures:
        for nodes in (2, 1) if safe else ():
            name = names.pop()
            jobs.append([float(rng.integers(0, 12)), name, safe, nodes, int(rng.integers(0, 4)), 30.0, 25.0])
            for when in sorted(rng.integers(8, 60, 2)):
                faults.append([float(when), float(when + rng.integers(1, 20)), name])
        for _ in range(3):
            when = float(rng.integers(1, 60))
            faults.append([when, when + float(rng.integers(1, 25)), ""])
        jobs.sort(key=lambda job: job[0])
    return Trace(MIXED_FAILURES if failures else MIXED, label, racks, quotas, jobs, faults)


def _load(rng: Rng, number: int) -> Trace:
    """A saturated cluster whose teams have little quota, so that the nodes are filled by borrowing and backfill.

    Durations are those that Gavel draws after Microsoft's Philly cluster (Narayanan et al. 2020, section 7.1; Jeon et
    al. 2019): in minutes, 10**U(1.5, 3) for four jobs of five, 10**U(3, 4) for the fifth; here cut off at 25 hours, as
    by a time limit. The sizes are Gavel's, too (1, 2, 4 or 8), in nodes, with fewer of the smallest, so that it is not
    enough to backfill jobs of one node: a job of 8 takes two thirds of this cluster. Users' bounds are 1 to 5 times too long (Mu'alem and Feitelson 2001, section 5).
    """
    racks = _racks(rng, LOAD_RACKS)
    total = sum(LOAD_RACKS)
    teams = [TEAMS[i] for i in rng.permutation(len(TEAMS))[:4]]
    widths = [nodes for nodes, share in SIZES for _ in range(round(share * LOAD_JOBS))]
    rng.shuffle(widths)
    drawn = []
    for nodes in widths:
        power = rng.uniform(1.5, 3.0) if rng.random() < 0.8 else rng.uniform(3.0, 4.0)
        actual = float(round(min(60 * 10.0**power, LONGEST)))
        drawn.append((nodes, actual, float(round(actual * rng.uniform(1.0, 5.0)))))
    work = sum(nodes * actual for nodes, actual, _ in drawn)
    span = work / total / 6  # jobs come six times as fast as the cluster can run them
    times = [float(round(at)) for at in sorted(rng.uniform(0, span, LOAD_JOBS))]
    names = _names(rng, LOAD_JOBS)
    jobs: list[list[Any]] = []
    for at, (nodes, actual, bound) in zip(times, drawn, strict=True):
        team = str(rng.choice(teams, p=[0.6, 0.2, 0.1, 0.1]))
        jobs.append([at, names.pop(), team, nodes, int(rng.integers(0, 8)), bound, actual])
    return Trace(LOADED, f"{LOAD_JOBS} jobs on {total} nodes, trace {number}", racks, dict.fromkeys(teams, 1), jobs, [])
