"""An entry for each job, whose properties are the sort keys; one Start, and then all rules once more."""

from dataclasses import dataclass, field
from itertools import accumulate, count

from grader.scheduling import Job, Preempt, Start


@dataclass
class Entry:
    job: Job
    place: int  # of its submit
    lost: int = 0  # the greater, the later its node failed
    nodes: set = field(default_factory=set)
    since: float = 0.0
    number: int = 0

    @property
    def queue(self):
        return (-self.lost, -self.job.priority, self.place)

    @property
    def rank(self):
        return (-self.job.priority, self.number)

    @property
    def bound(self):
        return self.since + self.job.seconds


class Scheduler:
    def __init__(self, racks, quotas):
        self.racks, self.quotas = [list(r) for r in racks], dict(quotas)
        self.free = {node for rack in racks for node in rack}
        self.down = set()
        self.entries = {}
        self.counter = count(1)

    # what the harness calls

    def submit(self, now, job):
        self.entries[job.id] = Entry(job, next(self.counter))
        return self.plan(now)

    def finished(self, now, job_id):
        self.free |= self.entries.pop(job_id).nodes - self.down
        return self.plan(now)

    def failed(self, now, node):
        self.down.add(node)
        self.free.discard(node)
        for entry in self.running():
            if node in entry.nodes:
                entry.lost = next(self.counter)
                self.stop(entry)
        return self.plan(now)

    def repaired(self, now, node):
        self.down.discard(node)
        self.free.add(node)
        return self.plan(now)

    # what there is

    def running(self):
        return sorted((e for e in self.entries.values() if e.nodes), key=lambda e: e.rank)

    def waiting(self):
        return sorted((e for e in self.entries.values() if not e.nodes), key=lambda e: e.queue)

    def used(self, team):
        return sum(len(e.nodes) for e in self.running() if e.job.team == team)

    def borrowed(self):
        sums, found = dict.fromkeys(self.quotas, 0), []
        for entry in self.running():
            sums[entry.job.team] += entry.job.nodes
            if sums[entry.job.team] > self.quotas[entry.job.team]:
                found.append(entry)
        return found

    # what is done

    def stop(self, entry):
        self.free |= entry.nodes - self.down
        entry.nodes = set()

    def start(self, now, entry):
        want = entry.job.nodes
        fits = [have for rack in self.racks if len(have := [n for n in rack if n in self.free]) >= want]
        chosen = min(fits, key=len)[:want] if fits else sorted(self.free)[:want]
        entry.nodes, entry.since, entry.number, entry.lost = set(chosen), now, next(self.counter), 0
        self.free -= entry.nodes
        return Start(entry.job.id, list(chosen))

    def plan(self, now):
        actions = []
        while more := self.quota(now) or self.first(now) or self.backfill(now):
            actions += more
        return actions

    def quota(self, now):
        for entry in self.waiting():
            job = entry.job
            if self.used(job.team) + job.nodes > self.quotas[job.team]:
                continue
            others = [e for e in reversed(self.borrowed()) if e.job.team != job.team]
            sums = [len(self.free), *accumulate((e.job.nodes for e in others), initial=len(self.free))][1:]
            enough = next((n for n, total in enumerate(sums) if total >= job.nodes), None)
            if enough is None:
                continue
            taken, total = others[:enough], sums[enough]
            for e in list(reversed(taken)):
                if total - e.job.nodes >= job.nodes:
                    taken.remove(e)
                    total -= e.job.nodes
            for e in taken:
                self.stop(e)
            return [*(Preempt(e.job.id) for e in taken), self.start(now, entry)]
        return []

    def first(self, now):
        queue = self.waiting()
        if queue and queue[0].job.nodes <= len(self.free):
            return [self.start(now, queue[0])]
        return []

    def backfill(self, now):
        head, *rest = self.waiting() or [None]
        if head is None:
            return []
        at, left = None, 0
        for bound in sorted({e.bound for e in self.running()}):
            then = len(self.free) + sum(e.job.nodes for e in self.running() if e.bound <= bound)
            if then >= head.job.nodes:
                at, left = bound, then - head.job.nodes
                break
        for entry in rest:
            if entry.job.nodes <= len(self.free) and (
                at is None or now + entry.job.seconds <= at or entry.job.nodes <= left
            ):
                return [self.start(now, entry)]
        return []
