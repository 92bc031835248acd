"""A cluster in virtual time: which call comes next, and what actions do to it. It knows none of the scheduling rules.

A learner's scheduler answers its calls in a box, where events depend on its actions. The grading process plays the same
cluster once more with the answers alone, so it believes nothing that happened in the box but these.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any, NamedTuple

from grader.scheduling import Job

FINISHED, FAILED, REPAIRED, SUBMIT = range(4)  # of calls at one time, the first comes first
MOST_CALLS = 4000


class Call(NamedTuple):
    """One call of the scheduler: `what` is a job's or a node's name, `job` the job of a submit.

    `ended` is the job that ended by it: the one that finished, or the one that was on a node that failed.
    """

    number: int
    name: str
    now: float
    what: str
    job: Job | None
    ended: str = ""


class Run(NamedTuple):
    """A job that runs: on which nodes, since when, and the how manyth start of all it was."""

    job: Job
    nodes: tuple[str, ...]
    since: float
    number: int


class Cluster:
    """The cluster and everything that will happen to it.

    `jobs` are (time of submit, id, team, nodes, priority, bound in seconds, actual seconds); `faults` are (time, time
    of the repair, target): the target is a node, or a job, whose first node by name fails if the job runs then, or ""
    for a free node.
    """

    def __init__(
        self, racks: list[list[str]], quotas: dict[str, int], jobs: Sequence[Sequence[Any]],
        faults: Sequence[Sequence[Any]],
    ) -> None:  # fmt: skip
        self.racks, self.quotas = racks, quotas
        self.rack_of = {node: number for number, rack in enumerate(racks) for node in rack}
        self.free = [set(rack) for rack in racks]  # by rack, without those that failed
        self.free_nodes = len(self.rack_of)
        self.failed: set[str] = set()
        self.holder: dict[str, str] = {}  # by node, the job that runs there
        self.used = dict.fromkeys(quotas, 0)  # by team
        self.known: dict[str, Job] = {}
        self.queue: list[tuple[tuple[int, int, int], str]] = []  # waiting jobs in order, each after its place
        self.running: dict[str, Run] = {}
        self.finish: dict[str, float] = {}
        self.actual: dict[str, float] = {}
        self.worked = 0.0  # node-seconds of what finished
        self.now, self.calls, self.starts = 0.0, 0, 0
        self._submits: dict[str, int] = {}
        self._failures: dict[str, int] = {}  # by job, the number of its last failure
        self._events: list[tuple[float, int, int, tuple[Any, ...]]] = []
        self._pushed = 0
        for at, name, team, nodes, priority, seconds, actual in jobs:
            self._push(at, SUBMIT, (Job(name, team, nodes, priority, seconds), actual))
        for at, until, target in faults:
            self._push(at, FAILED, (target, until))

    def _push(self, at: float, order: int, what: tuple[Any, ...]) -> None:
        self._pushed += 1
        heapq.heappush(self._events, (at, order, self._pushed, what))

    # ---- calls

    def next(self) -> Call | None:
        """What the scheduler is told next; the cluster is then as it is when the call is made. None at the end."""
        while self._events and self.calls < MOST_CALLS:
            self.now, order, _, what = heapq.heappop(self._events)
            happens = (self._finish, self._fail, self._repair, self._submit)[order]
            call: Call | None = happens(*what)
            if call is not None:
                self.calls += 1
                return call
        return None

    def _call(self, name: str, what: str, job: Job | None = None, ended: str = "") -> Call:
        return Call(self.calls, name, self.now, what, job, ended)

    def _submit(self, job: Job, actual: float) -> Call:
        self.known[job.id], self.actual[job.id] = job, actual
        self._submits[job.id] = len(self._submits)
        self._wait(job)
        return self._call("submit", job.id, job)

    def _finish(self, name: str, start: int) -> Call | None:
        run = self.running.get(name)
        if run is None or run.number != start:
            return None  # it was preempted, or its node failed
        self._stop(name)
        self.finish[name] = self.now
        self.worked += run.job.nodes * self.actual[name]
        return self._call("finished", name, ended=name)

    def _fail(self, target: str, until: float) -> Call | None:
        if target in self.rack_of:
            node = target
        elif target in self.running:
            node = min(self.running[target].nodes)
        else:
            node = min((node for free in self.free for node in free), default="") if not target else ""
        if not node:
            return None
        if node in self.failed:
            return None
        holder = self.holder.get(node, "")
        if holder:
            self._failures[holder] = self._pushed
            self._wait(self._stop(holder).job)
        self.free[self.rack_of[node]].remove(node)
        self.free_nodes -= 1
        self.failed.add(node)
        self._push(until, REPAIRED, (node,))
        return self._call("failed", node, ended=holder)

    def _repair(self, node: str) -> Call:
        self.failed.remove(node)
        self.free[self.rack_of[node]].add(node)
        self.free_nodes += 1
        return self._call("repaired", node)

    # ---- jobs

    def place(self, job: Job) -> tuple[int, int, int]:
        """Where a job waits in the queue: less is earlier."""
        failure = self._failures.get(job.id)
        return (1, -job.priority, self._submits[job.id]) if failure is None else (0, -failure, 0)

    def has_failed(self, name: str) -> bool:
        """Whether a node failed under the job, ever."""
        return name in self._failures

    def _wait(self, job: Job) -> None:
        insort(self.queue, (self.place(job), job.id))

    def waits(self, name: str) -> bool:
        return name in self.known and name not in self.running and name not in self.finish

    def _stop(self, name: str) -> Run:
        run = self.running.pop(name)
        for node in run.nodes:
            del self.holder[node]
            self.free[self.rack_of[node]].add(node)
        self.free_nodes += len(run.nodes)
        self.used[run.job.team] -= len(run.nodes)
        return run

    # ---- actions

    def impossible(self, action: Sequence[Any]) -> str:
        """Why an action cannot be carried out now; "" if it can."""
        if action[0] == "preempt":
            return "" if action[1] in self.running else self._state(action[1])
        if action[0] != "start":
            return f"the answer is {action[1]}, not a list of Start and Preempt"
        _, name, nodes = action
        if not self.waits(name):
            return self._state(name)
        job = self.known[name]
        for node in nodes:
            if node not in self.rack_of:
                return f"there is no node {node[:40]!r}"
            if node in self.failed:
                return f"node {node} has failed and is not repaired yet"
            if node in self.holder:
                return f"job {self.holder[node]} runs on node {node}"
        if len(set(nodes)) != len(nodes):
            return "the Start names a node twice"
        if len(nodes) != job.nodes:
            return f"the job needs {job.nodes} nodes, and the Start names {len(nodes)}"
        return ""

    def _state(self, name: str) -> str:
        if name in self.running:
            return f"the job has been running since {self.running[name].since:,.10g} s"
        if name in self.finish:
            return f"the job finished at {self.finish[name]:,.10g} s"
        return "the job is waiting, so it does not run" if name in self.known else "no such job was submitted"

    def carry_out(self, action: Sequence[Any]) -> None:
        """Do it. It must be possible."""
        if action[0] == "preempt":
            self._wait(self._stop(action[1]).job)
            return
        _, name, nodes = action
        job = self.known[name]
        del self.queue[bisect_left(self.queue, (self.place(job), name))]
        for node in nodes:
            self.holder[node] = name
            self.free[self.rack_of[node]].remove(node)
        self.free_nodes -= len(nodes)
        self.used[job.team] += len(nodes)
        self.starts += 1
        self.running[name] = Run(job, tuple(nodes), self.now, self.starts)
        self._push(self.now + self.actual[name], FINISHED, (name, self.starts))
