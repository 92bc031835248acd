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
from grader.exercises.gang_scheduler.starts import (
    Found,
    are,
    free_now,
    job_names,
    judge_backfill,
    judge_no_right,
    judge_order,
    judge_preempted,
    judge_racks,
    priority_of,
    whether_borrowed,
    within,
)
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
        passed: list[tuple[str, tuple[str, ...]]] = []
        at = 0
        while at < len(answer):
            end = at
            while end < len(answer) and answer[end][0] == "preempt":
                end += 1
            part = answer[at : end + 1]
            at = end + 1
            found = Found()
            self._judge_part(found, part, must, owed)
            if not self._carried_out(part, found):
                self.judged.broken = True
                return
            for rule, args in found.mistakes:
                self._mistake(rule, *args)
            passed += found.passed
            must &= {job.id for job in rules.could_start(cluster)}
        left = {job.id for job in rules.could_start(cluster)}
        self._left(owed)
        for name, args in passed:
            if name not in left:
                self._mistake("quota" if cluster.waits(name) else "queue", *args)

    def _carried_out(self, part: list[Action], found: Found) -> bool:
        cluster = self.cluster
        for action in part:
            why = cluster.impossible(action)
            if why:
                self._impossible(action, why)
                return False
            if action[0] == "preempt":
                self._close(cluster.running[action[1]], "preempted")
            else:
                judge_racks(cluster, found, action)
            cluster.carry_out(action)
            if action[0] == "start":
                self.started[action[1]] = cluster.running[action[1]]
                self.known_waits.discard(action[1])
        return True

    def _impossible(self, action: Action, why: str) -> None:
        if action[0] == "none":
            of_nodes = action[1].startswith("a Start")
            advice = (
                "Give Start a list of node names"
                if of_nodes
                else "Return a list of Start and Preempt, which may be empty"
            )
            wanted = "a list of node names" if of_nodes else "a list of Start and Preempt"
            self._mistake("nodes", f"The scheduler returned {action[1]}. {advice}.", wanted, says.cut(action[1]))
            return
        name = says.cut(action[1], 40)
        what = (
            f"Start(job {name}, {says.counted(len(action[2]), 'node')})" if len(action) > 2 else f"Preempt(job {name})"
        )
        free = f"{says.counted(self.cluster.free_nodes, 'node')} {are(self.cluster.free_nodes)} free"
        text = (
            f"The answer has {what}, which cannot be carried out, because {why}. At that moment {free}. Start a waiting "
            "job with exactly its number of nodes, all of them free and not failed, and preempt only what runs."
        )
        self._mistake("nodes", text, "an action that can be carried out", f"{what}: {why}", name)

    def _judge_part(self, found: Found, part: list[Action], must: set[str], owed: dict[str, None]) -> None:
        """Preempts and the Start directly behind them, before they are carried out."""
        cluster = self.cluster
        preempted = [action[1] for action in part if action[0] == "preempt"]
        start = part[-1] if part[-1][0] == "start" else None
        if start is None or not cluster.waits(start[1]):
            if preempted:  # a Start of one of these jobs themselves is possible, too
                text = (
                    f"The answer preempts {job_names(preempted)}, and no Start of another job comes directly after it. A "
                    "Preempt is allowed only directly before the Start of a job within its quota that needs the nodes."
                )
                found.add("preemption", text, "no Preempt", f"Preempt of {job_names(preempted)}", *preempted)
            return
        job = cluster.known[start[1]]
        taken = rules.victims(cluster, job) if rules.within_quota(cluster, job) else None
        if taken is not None:
            judge_preempted(cluster, found, job, preempted, taken)
            judge_order(cluster, found, job, True, must, owed)
            return
        if preempted:
            judge_no_right(cluster, found, job, preempted)
        elif job.nodes <= cluster.free_nodes:
            judge_order(cluster, found, job, False, must, owed)
            first = next(rules.waiting(cluster))
            if first.id != job.id:
                judge_backfill(cluster, found, job, first)

    def _left(self, owed: dict[str, None]) -> None:
        """Rules 1 and 2 leave nobody who could start."""
        cluster = self.cluster
        able = [job for job in rules.could_start(cluster) if job.id not in self.known_waits]
        for job in able[:1]:
            text, got = within(cluster, job), f"job {job.id} waits"
            if job.nodes <= cluster.free_nodes:
                text += f" {free_now(cluster)}. Rule 1 starts the job now."
            else:
                names = [run.job.id for run in rules.victims(cluster, job) or ()]
                borrowed = " ".join(whether_borrowed(cluster, name) for name in names[:2])
                text += f" {free_now(cluster)}, and {job_names(names)} would give enough. {borrowed} Rule 1 preempts {job_names(names)} now."
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
            f"The answer leaves job {first.id} waiting. It is the first in the queue{priority_of(first)}.{why} It needs "
            f"{says.counted(first.nodes, 'node')}. {free_now(cluster)}. Rule 2 starts it, also beyond its team's quota. "
            "Repeat the rules until nothing changes."
        )
        self._mistake("queue", text, f"job {first.id} starts", f"job {first.id} waits", first.id)
