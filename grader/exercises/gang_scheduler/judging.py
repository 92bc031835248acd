"""What a scheduler answered, held against the rules call by call: the first mistake of each kind, with its numbers.

Only the answers come from the box. The calls, and the cluster at each of them, are computed here from the answers.
Mistakes that can be carried out are carried out, so that one kind of mistake does not hide the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grader import says
from grader.exercises.gang_scheduler import rules
from grader.scheduling import Job
from grader.scheduling.cluster import Call, Cluster, Run
from grader.trace.schedule import Block, Outage

Action = Sequence[Any]


@dataclass(frozen=True)
class Mistake:
    """A rule that a call broke: nodes, racks, quota, preemption, queue or backfill."""

    rule: str
    call: Call
    text: str
    expected: str
    got: str
    jobs: tuple[str, ...] = ()  # that the picture points at


@dataclass
class Judged:
    """One play of a cluster. `broken`: an answer could not be carried out, and nothing after it was judged."""

    cluster: Cluster
    mistakes: dict[str, Mistake] = field(default_factory=dict)  # the first of each rule
    broken: bool = False
    forged: str = ""  # why it is no possible play
    blocks: list[Block] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    unfinished: tuple[str, ...] = ()


def judge(cluster: Cluster, answers: Any) -> Judged:
    """Play `cluster`, which is at its beginning, by the answers that came from a box."""
    return _Judge(cluster).play(answers)


def _well_formed(answers: Any) -> bool:
    """Whether it is what `in_box.played` returns, whatever the actions mean."""
    return isinstance(answers, list) and all(
        isinstance(answer, list) and all(isinstance(action, list) and _is_action(action) for action in answer)
        for answer in answers
    )


def _is_action(action: list[Any]) -> bool:
    if len(action) == 3 and action[0] == "start":
        named = isinstance(action[2], list) and all(isinstance(node, str) for node in action[2])
        return named and isinstance(action[1], str)
    return len(action) == 2 and action[0] in ("preempt", "none") and isinstance(action[1], str)


class _Judge:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.judged = cluster, Judged(cluster)
        self.known_waits: set[str] = set()  # jobs about which a complaint has been made: they should run already
        self.since: dict[str, float] = {}  # of nodes that have failed
        self.started: dict[str, Run] = {}  # of every job, the last time
        self.call: Call

    def play(self, answers: Any) -> Judged:
        cluster, judged = self.cluster, self.judged
        if not _well_formed(answers):
            judged.forged = "the answers are not lists of actions"
            return judged
        for answer in answers:
            call = cluster.next()
            if call is None or judged.broken:
                judged.forged = "there are answers to calls that were never made"
                return judged
            self.call = call
            self._heard()
            self._answered(answer)
        if not judged.broken:
            if cluster.next() is not None:
                judged.forged = "a call has no answer"
                return judged
            judged.unfinished = tuple(name for name in cluster.known if name not in cluster.finish)
        for run in list(cluster.running.values()):
            self._close(run, "running")
        judged.outages += [Outage(node, since, cluster.now) for node, since in self.since.items()]
        return judged

    # ---- for the picture

    def _heard(self) -> None:
        call = self.call
        if call.name == "failed":
            self.since[call.what] = call.now
        if call.name == "repaired":
            self.judged.outages.append(Outage(call.what, self.since.pop(call.what), call.now))
        if call.ended:
            self._close(self.started[call.ended], "failed" if call.name == "failed" else "finished")

    def _close(self, run: Run, became: Any) -> None:
        self.judged.blocks.append(Block(run.job.id, run.job.team, run.nodes, run.since, self.cluster.now, became))

    # ---- one call

    def _mistake(self, rule: str, text: str, expected: str, got: str, *jobs: str) -> None:
        self.judged.mistakes.setdefault(rule, Mistake(rule, self.call, text, expected, got, jobs))

    def _answered(self, answer: list[Action]) -> None:
        cluster = self.cluster
        owed: dict[str, None] = {}  # jobs that a later one went before, which took nothing from them
        must = {job.id for job in rules.could_start(cluster)} - self.known_waits
        at = 0
        while at < len(answer):
            end = at
            while end < len(answer) and answer[end][0] == "preempt":
                end += 1
            part = answer[at : end + 1]
            at = end + 1
            found = _Found()
            self._judge_part(found, part, must, owed)
            if not self._carried_out(part, found):
                self.judged.broken = True
                return
            for rule, args in found.mistakes:
                self._mistake(rule, *args)
            must &= {job.id for job in rules.could_start(cluster)}
        self._left(owed)

    def _carried_out(self, part: list[Action], found: _Found) -> bool:
        cluster = self.cluster
        for action in part:
            why = cluster.impossible(action)
            if why:
                self._impossible(action, why)
                return False
            if action[0] == "preempt":
                self._close(cluster.running[action[1]], "preempted")
            else:
                _judge_racks(cluster, found, action)
            cluster.carry_out(action)
            if action[0] == "start":
                self.started[action[1]] = cluster.running[action[1]]
                self.known_waits.discard(action[1])
        return True

    def _impossible(self, action: Action, why: str) -> None:
        if action[0] == "none":
            text = f"The scheduler returned {action[1]}. Return a list of Start and Preempt, which may be empty."
            self._mistake("nodes", text, "a list of Start and Preempt", says.cut(action[1]))
            return
        name = says.cut(action[1], 40)
        what = (
            f"Start(job {name}, {says.counted(len(action[2]), 'node')})" if len(action) > 2 else f"Preempt(job {name})"
        )
        free = f"{says.counted(self.cluster.free_nodes, 'node')} {_are(self.cluster.free_nodes)} free"
        text = (
            f"The answer has {what}, which cannot be carried out, because {why}. At that moment {free}. Start a waiting "
            "job with exactly its number of nodes, all of them free and not failed, and preempt only what runs."
        )
        self._mistake("nodes", text, "an action that can be carried out", f"{what}: {why}", name)

    def _judge_part(self, found: _Found, part: list[Action], must: set[str], owed: dict[str, None]) -> None:
        """Preempts and the Start directly behind them, before they are carried out."""
        cluster = self.cluster
        preempted = [action[1] for action in part if action[0] == "preempt"]
        start = part[-1] if part[-1][0] == "start" else None
        if start is None or not cluster.waits(start[1]):
            if preempted and part[-1][0] == "preempt":
                text = (
                    f"The answer preempts {_jobs(preempted)}, and no Start comes directly after it. A Preempt is allowed "
                    "only directly before the Start of a job within its quota that needs the nodes."
                )
                found.add("preemption", text, "no Preempt", f"Preempt of {_jobs(preempted)}", *preempted)
            return
        job = cluster.known[start[1]]
        taken = rules.victims(cluster, job) if rules.within_quota(cluster, job) else None
        if taken is not None:
            _judge_preempted(cluster, found, job, preempted, taken)
            _judge_order(cluster, found, job, True, must, owed)
            return
        if preempted:
            _judge_no_right(cluster, found, job, preempted)
        elif job.nodes <= cluster.free_nodes:
            _judge_order(cluster, found, job, False, must, owed)
            first = next(rules.waiting(cluster))
            if first.id != job.id:
                _judge_backfill(cluster, found, job, first)

    def _left(self, owed: dict[str, None]) -> None:
        """Rules 1 and 2 leave nobody who could start."""
        cluster = self.cluster
        able = [job for job in rules.could_start(cluster) if job.id not in self.known_waits]
        for job in able[:1]:
            text, got = _within(cluster, job), f"job {job.id} waits"
            if job.nodes <= cluster.free_nodes:
                text += f" {_free(cluster)}. Rule 1 starts the job now."
            else:
                names = [run.job.id for run in rules.victims(cluster, job) or ()]
                text += f" {_free(cluster)}, and {_jobs(names)} would give enough. Rule 1 preempts {_jobs(names)} now."
            self._mistake(
                "quota", f"The answer leaves job {job.id} waiting. {text}", f"job {job.id} starts", got, job.id
            )
        self.known_waits.update(job.id for job in able)
        passed = [name for name in owed if cluster.waits(name) and name not in self.known_waits]
        for name in passed[:1]:
            text = (
                f"The answer leaves job {name} waiting, though it was within quota and had enough free nodes when a "
                "later job started. Rule 1 goes through the queue in order."
            )
            self._mistake("queue", text, f"job {name} starts", f"job {name} waits", name)
        first = next(rules.waiting(cluster), None)
        if first is None or first.nodes > cluster.free_nodes or first.id in self.known_waits:
            return
        self.known_waits.add(first.id)
        why = " It is first because a node failed under it." if cluster.has_failed(first.id) else ""
        text = (
            f"The answer leaves job {first.id} waiting. It is the first in the queue{_priority(first)}.{why} It needs "
            f"{says.counted(first.nodes, 'node')}. {_free(cluster)}. Rule 2 starts it, also beyond its team's quota. "
            "Repeat the rules until nothing changes."
        )
        self._mistake("queue", text, f"job {first.id} starts", f"job {first.id} waits", first.id)


class _Found:
    """Mistakes of a part of an answer, which count if it can be carried out."""

    def __init__(self) -> None:
        self.mistakes: list[tuple[str, tuple[str, ...]]] = []

    def add(self, rule: str, text: str, expected: str, got: str, *jobs: str) -> None:
        self.mistakes.append((rule, (text, expected, got, *jobs)))


# ---- the rules of one Start


def _judge_preempted(cluster: Cluster, found: _Found, job: Job, preempted: list[str], taken: list[Run]) -> None:
    """Rule 1's victims, for a job within quota."""
    right = [run.job.id for run in taken]
    if set(preempted) == set(right):
        return
    text = f"Before the Start of job {job.id} the answer preempts {_jobs(preempted)}. {_within(cluster, job)} {_free(cluster)}"
    if job.nodes <= cluster.free_nodes:
        text += ", which is enough. Preempt nobody."
    else:
        text += f". {_why_these(cluster, job, right)}"
    borrowed = {run.job.id for run in rules.borrowed(cluster)}
    safe = [name for name in preempted if name in cluster.running and name not in borrowed]
    for name in safe[:1]:
        text += f" {_not_borrowed(cluster, name)}"
    expected = f"Preempt of {_jobs(right)}" if right else "no Preempt"
    found.add("preemption", text, expected, f"Preempt of {_jobs(preempted)}", *preempted, *right)


def _why_these(cluster: Cluster, job: Job, right: list[str]) -> str:
    taken = [f"{run.job.id} ({run.job.nodes})" for run in rules.taken_first(cluster, job)]
    spared = [run.job.id for run in rules.taken_first(cluster, job) if run.job.id not in right]
    text = (
        f"Rule 1 takes borrowed jobs, least priority first, then latest start first, until enough nodes are free: "
        f"{says.listed(taken)}, with their nodes in brackets."
    )
    if spared:
        text += f" Then it goes from the last taken to the first and spares {_jobs(list(reversed(spared)))}."
    return f"{text} So it preempts {_jobs(right)}."


def _not_borrowed(cluster: Cluster, name: str) -> str:
    run = cluster.running[name]
    team = run.job.team
    ahead = sum(
        other.job.nodes for other in cluster.running.values()
        if other.job.team == team and (-other.job.priority, other.number) <= (-run.job.priority, run.number)
    )  # fmt: skip
    return (
        f"Job {name} is not borrowed: it and the jobs of team {team} before it have {says.counted(ahead, 'node')}, and "
        f"the quota is {cluster.quotas[team]}."
    )


def _judge_no_right(cluster: Cluster, found: _Found, job: Job, preempted: list[str]) -> None:
    """Preempts before a job that rule 1 does not start."""
    if rules.within_quota(cluster, job):
        most = cluster.free_nodes + sum(run.job.nodes for run in rules.borrowed(cluster))
        why = (
            f"{_within(cluster, job)} But free nodes and the nodes of all borrowed jobs are only {most} together. If "
            "they are never enough, rule 1 preempts nobody."
        )
    else:
        why = f"{_over(cluster, job)} Only a job within quota preempts others. This one waits for free nodes."
    text = f"Before the Start of job {job.id} the answer preempts {_jobs(preempted)}. {why}"
    found.add("preemption", text, "no Preempt", f"Preempt of {_jobs(preempted)}", job.id, *preempted)


def _judge_order(
    cluster: Cluster, found: _Found, job: Job, by_quota: bool, must: set[str], owed: dict[str, None]
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


def _out_of_order(cluster: Cluster, found: _Found, job: Job, other: Job, by_quota: bool) -> None:
    text = f"The answer starts job {job.id}{_priority(job)} before job {other.id}{_priority(other)}. {_free(cluster)}. "
    if by_quota:
        text += f"Both are within quota, and job {other.id} is earlier in the queue"
        text += ", because a node failed under it" if cluster.has_failed(other.id) else ""
        text += ". Rule 1 goes through the queue in order."
        found.add("queue", text, f"job {other.id} first", f"job {job.id} first", job.id, other.id)
        return
    text += f"{_within(cluster, other)} {_over(cluster, job)} Rule 1 comes before rules 2 and 3: start job {other.id} first."
    found.add("quota", text, f"job {other.id} first", f"job {job.id} first", job.id, other.id)


def _judge_backfill(cluster: Cluster, found: _Found, job: Job, first: Job) -> None:
    when = rules.reservation(cluster, first)
    if rules.may_go_before(cluster, job, when):
        return
    head = f"The answer starts job {job.id}. {_over(cluster, job)} It is not the first in the queue"
    if first.nodes <= cluster.free_nodes:
        why = ", because a node failed under it" if cluster.has_failed(first.id) else _priority(first)
        text = (
            f"{head}: job {first.id} is{why}. {_free(cluster)}. Job {first.id} needs {first.nodes} of them, and does not "
            "get them any more. Rule 2 starts the first job in the queue."
        )
        found.add("queue", text, f"job {first.id} first", f"job {job.id} first", job.id, first.id)
        return
    assert when.at is not None
    text = (
        f"{head}: job {first.id} is, and needs {says.counted(first.nodes, 'node')}. By the bounds of what runs, job "
        f"{first.id} can start at {when.at:,.10g} s, when {says.counted(when.free, 'node')} are free. Job {job.id} may hold "
        f"{says.counted(job.nodes, 'node')} until {cluster.now + job.seconds:,.10g} s, and then only "
        f"{when.free - job.nodes} are left at {when.at:,.10g} s. Start it only if it ends by {when.at:,.10g} s or leaves "
        f"{first.nodes} nodes."
    )
    expected = f"job {job.id} waits"
    found.add("backfill", text, expected, f"job {job.id} starts", job.id, first.id)


def _judge_racks(cluster: Cluster, found: _Found, action: Action) -> None:
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


def _jobs(names: Sequence[str]) -> str:
    if not names:
        return "no job"
    return f"{'job' if len(names) == 1 else 'jobs'} {says.listed(names)}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _free(cluster: Cluster) -> str:
    return f"{says.counted(cluster.free_nodes, 'node')} {_are(cluster.free_nodes)} free"


def _priority(job: Job) -> str:
    return f" (priority {job.priority})"


def _within(cluster: Cluster, job: Job) -> str:
    return (
        f"Job {job.id} needs {says.counted(job.nodes, 'node')} and is within quota: team {job.team} uses "
        f"{cluster.used[job.team]} of {cluster.quotas[job.team]}."
    )


def _over(cluster: Cluster, job: Job) -> str:
    if rules.within_quota(cluster, job):
        return _within(cluster, job)
    return (
        f"Job {job.id} needs {says.counted(job.nodes, 'node')} and is not within quota: team {job.team} uses "
        f"{cluster.used[job.team]} of {cluster.quotas[job.team]}."
    )
