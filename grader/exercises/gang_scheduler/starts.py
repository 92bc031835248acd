"""One Start of a scheduler, and what was preempted for it, held against the rules; and the words for what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader import says
from grader.exercises.gang_scheduler import rules
from grader.scheduling import Job
from grader.scheduling.cluster import Cluster, Run

Action = Sequence[Any]


class Found:
    """Mistakes of a part of an answer, which count if it can be carried out."""

    def __init__(self) -> None:
        self.mistakes: list[tuple[str, tuple[str, ...]]] = []
        self.passed: list[tuple[str, tuple[str, ...]]] = []  # jobs that one later in the queue went before

    def add(self, rule: str, text: str, expected: str, got: str, *jobs: str) -> None:
        self.mistakes.append((rule, (text, expected, got, *jobs)))


# ---- the rules of one Start


def judge_preempted(cluster: Cluster, found: Found, job: Job, preempted: list[str], taken: list[Run]) -> None:
    """Rule 1's victims, for a job within quota."""
    right = [run.job.id for run in taken]
    if set(preempted) == set(right):
        return
    text = f"Before the Start of job {job.id} the answer preempts {job_names(preempted)}. {within(cluster, job)} {free_now(cluster)}"
    if job.nodes <= cluster.free_nodes:
        text += ", which is enough. Preempt nobody."
    else:
        text += f". {_why_these(cluster, job, right)}"
    borrowed = {run.job.id for run in rules.borrowed(cluster)}
    safe = [name for name in preempted if name in cluster.running and name not in borrowed]
    for name in safe[:1]:
        text += f" {whether_borrowed(cluster, name)}"
    expected = f"Preempt of {job_names(right)}" if right else "no Preempt"
    found.add("preemption", text, expected, f"Preempt of {job_names(preempted)}", *preempted, *right)


def _why_these(cluster: Cluster, job: Job, right: list[str]) -> str:
    taken = [f"{run.job.id} ({run.job.nodes})" for run in rules.taken_first(cluster, job)]
    spared = [run.job.id for run in rules.taken_first(cluster, job) if run.job.id not in right]
    text = (
        f"Rule 1 takes borrowed jobs, least priority first, then latest start first, until enough nodes are free: "
        f"{says.listed(taken)}, with their nodes in brackets."
    )
    if spared:
        text += f" Then it goes from the last taken to the first and spares {job_names(list(reversed(spared)))}."
    return f"{text} So it preempts {job_names(right)}."


def whether_borrowed(cluster: Cluster, name: str) -> str:
    """Whether a running job is borrowed, and the numbers that say so."""
    run = cluster.running[name]
    team, quota = run.job.team, cluster.quotas[run.job.team]
    upto = sum(
        other.job.nodes for other in cluster.running.values()
        if other.job.team == team and (-other.job.priority, other.number) <= (-run.job.priority, run.number)
    )  # fmt: skip
    return (
        f"Job {name} is {'' if upto > quota else 'not '}borrowed: it and the jobs of team {team} before it have "
        f"{says.counted(upto, 'node')}, and the quota is {quota}."
    )


def judge_no_right(cluster: Cluster, found: Found, job: Job, preempted: list[str]) -> None:
    """Preempts before a job that rule 1 does not start."""
    if rules.within_quota(cluster, job):
        most = cluster.free_nodes + sum(run.job.nodes for run in rules.borrowed(cluster))
        why = (
            f"{within(cluster, job)} But free nodes and the nodes of all borrowed jobs are only {most} together. If "
            "they are never enough, rule 1 preempts nobody."
        )
    else:
        why = f"{over(cluster, job)} Only a job within quota preempts others. This one waits for free nodes."
    text = f"Before the Start of job {job.id} the answer preempts {job_names(preempted)}. {why}"
    found.add("preemption", text, "no Preempt", f"Preempt of {job_names(preempted)}", job.id, *preempted)


def judge_order(
    cluster: Cluster, found: Found, job: Job, by_quota: bool, must: set[str], owed: dict[str, None]
) -> None:
    """Whether a Start takes something from a job that rule 1 starts before it.

    `must` are the jobs that rule 1 could start all through this call so far: an answer may have gone past others in
    the same pass. A Start out of order that takes nothing from them is allowed, if they start in the same answer.
    """
    place = cluster.place(job)
    able = [
        other for other in rules.could_start(cluster)
        if other.id in must and other.id != job.id and (not by_quota or cluster.place(other) < place)
    ]  # fmt: skip
    free, used, passed = cluster.free_nodes, dict(cluster.used), []
    for other in able:
        if used[other.team] + other.nodes > cluster.quotas[other.team]:
            continue
        if other.nodes > free:
            return _out_of_order(cluster, found, job, other, by_quota)
        free -= other.nodes
        used[other.team] += other.nodes
        passed.append(other)
    over = by_quota and used[job.team] + job.nodes > cluster.quotas[job.team]
    if passed and (job.nodes > free or over):
        return _out_of_order(cluster, found, job, passed[0], by_quota)
    owed.update(dict.fromkeys(other.id for other in passed))
    return None


def _out_of_order(cluster: Cluster, found: Found, job: Job, other: Job, by_quota: bool) -> None:
    text = f"The answer starts job {job.id}{priority_of(job)} before job {other.id}{priority_of(other)}. {free_now(cluster)}. "
    if by_quota:
        text += f"Both are within quota, and job {other.id} is earlier in the queue"
        text += ", because a node failed under it" if cluster.has_failed(other.id) else ""
        text += ". Rule 1 goes through the queue in order."
        said = text, f"job {other.id} first", f"job {job.id} first", job.id, other.id
        if other.nodes > cluster.free_nodes:  # if it is left waiting, that is another mistake
            found.passed.append((other.id, said))
        else:
            found.add("queue", *said)
        return
    text += (
        f"{within(cluster, other)} {over(cluster, job)} Rule 1 comes before rules 2 and 3: start job {other.id} first."
    )
    found.add("quota", text, f"job {other.id} first", f"job {job.id} first", job.id, other.id)


def judge_backfill(cluster: Cluster, found: Found, job: Job, first: Job) -> None:
    when = rules.reservation(cluster, first)
    if rules.may_go_before(cluster, job, when):
        return
    head = f"The answer starts job {job.id}{priority_of(job)}. {over(cluster, job)} It is not the first in the queue"
    why = ", because a node failed under it" if cluster.has_failed(first.id) else priority_of(first)
    if first.nodes <= cluster.free_nodes:
        text = (
            f"{head}: job {first.id} is{why}. {free_now(cluster)}. Job {first.id} needs {first.nodes} of them, and does not "
            "get them any more. Rule 2 starts the first job in the queue."
        )
        found.add("queue", text, f"job {first.id} first", f"job {job.id} first", job.id, first.id)
        return
    assert when.at is not None
    text = (
        f"{head}: job {first.id} is{why}. It needs {says.counted(first.nodes, 'node')}. By the bounds of what runs, job "
        f"{first.id} can start at {when.at:,.10g} s, when {says.counted(when.free, 'node')} are free. Job {job.id} may hold "
        f"{says.counted(job.nodes, 'node')} until {cluster.now + job.seconds:,.10g} s, and then only "
        f"{when.free - job.nodes} are left at {when.at:,.10g} s. Start it only if it ends by {when.at:,.10g} s or leaves "
        f"{first.nodes} nodes."
    )
    expected = f"job {job.id} waits"
    found.add("backfill", text, expected, f"job {job.id} starts", job.id, first.id)


def judge_racks(cluster: Cluster, found: Found, action: Action) -> None:
    """All nodes of one rack, if some rack has that many free now."""
    _, name, nodes = action
    used = {cluster.rack_of[node] for node in nodes}
    roomy = [number for number, free in enumerate(cluster.free) if len(free) >= len(nodes)]
    if len(used) < 2 or not roomy:
        return
    here = len(cluster.free[roomy[0]])
    text = (
        f"Job {name} starts on {len(nodes)} nodes of {len(used)} racks ({says.some(sorted(nodes), 6)}). Rack "
        f"{roomy[0]} alone has {says.counted(here, 'free node')} at this moment (racks count from 0). Take all nodes from "
        "one rack if some rack has enough."
    )
    found.add("racks", text, f"{len(nodes)} nodes of one rack", f"nodes of {len(used)} racks", name)


# ---- words


def job_names(names: Sequence[str]) -> str:
    if not names:
        return "no job"
    return f"{'job' if len(names) == 1 else 'jobs'} {says.listed(names)}"


def are(number: int) -> str:
    return "is" if number == 1 else "are"


def free_now(cluster: Cluster) -> str:
    return f"{says.counted(cluster.free_nodes, 'node')} {are(cluster.free_nodes)} free"


def priority_of(job: Job) -> str:
    return f" (priority {job.priority})"


def within(cluster: Cluster, job: Job) -> str:
    return (
        f"Job {job.id} needs {says.counted(job.nodes, 'node')} and is within quota: team {job.team} uses "
        f"{says.counted(cluster.used[job.team], 'node')} of its quota of {cluster.quotas[job.team]}."
    )


def over(cluster: Cluster, job: Job) -> str:
    if rules.within_quota(cluster, job):
        return within(cluster, job)
    return (
        f"Job {job.id} needs {says.counted(job.nodes, 'node')} and is not within quota: team {job.team} uses "
        f"{says.counted(cluster.used[job.team], 'node')} of its quota of {cluster.quotas[job.team]}."
    )
