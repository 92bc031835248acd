"""Plans a start for every waiting job on a profile of free nodes, and starts what is planned for now: conservative
backfill, which holds up no job that is earlier in the queue."""

from bisect import bisect
from dataclasses import dataclass, field

from grader.scheduling import Job, Preempt, Start


@dataclass
class Record:
    job: Job
    number: int
    failure: int = 0
    nodes: list = field(default_factory=list)
    start: float = 0.0
    turn: int = 0

    @property
    def running(self):
        return bool(self.nodes)

    @property
    def end(self):
        return self.start + self.job.seconds

    def place(self):
        return (0, -self.failure) if self.failure else (1, -self.job.priority, self.number)


DEPTH = 30  # jobs that are planned for


class Profile:
    """How many nodes are free from each time on."""

    def __init__(self, now, free, ends):
        self.steps = [[now, free]]
        for end, nodes in sorted(ends):
            if end == self.steps[-1][0]:
                self.steps[-1][1] += nodes
            else:
                self.steps.append([end, self.steps[-1][1] + nodes])

    def earliest(self, nodes, seconds):
        begin = None
        for time, free in self.steps:
            if free < nodes:
                begin = None
            elif begin is None:
                begin = time
            if begin is not None and time >= begin + seconds:
                break
        return begin

    def reserve(self, time, nodes, seconds):
        for edge in (time, time + seconds):
            self._cut(edge)
        for step in self.steps:
            if time <= step[0] < time + seconds:
                step[1] -= nodes

    def _cut(self, time):
        at = bisect([step[0] for step in self.steps], time)
        if self.steps[at - 1][0] < time:
            self.steps.insert(at, [time, self.steps[at - 1][1]])


class Scheduler:
    def __init__(self, racks, quotas):
        self.racks, self.quotas = racks, quotas
        self.records, self.down = {}, set()
        self.turns = self.failures = self.submits = 0

    # the state

    def waiting(self):
        return sorted((r for r in self.records.values() if not r.running), key=Record.place)

    def running(self):
        return [r for r in self.records.values() if r.running]

    def free_racks(self):
        busy = {node for r in self.running() for node in r.nodes} | self.down
        return [[node for node in rack if node not in busy] for rack in self.racks]

    def used(self, team):
        return sum(r.job.nodes for r in self.running() if r.job.team == team)

    # the calls

    def submit(self, now, job):
        self.submits += 1
        self.records[job.id] = Record(job, self.submits)
        return self.act(now)

    def finished(self, now, job_id):
        self.records.pop(job_id)
        return self.act(now)

    def failed(self, now, node):
        self.down.add(node)
        for record in self.running():
            if node in record.nodes:
                record.nodes = []
                self.failures += 1
                record.failure = self.failures
        return self.act(now)

    def repaired(self, now, node):
        self.down.discard(node)
        return self.act(now)

    # the rules

    def act(self, now):
        actions = []
        changed = True
        while changed:
            changed = False
            for record in self.waiting():
                if record.running:
                    continue
                job = record.job
                if self.used(job.team) + job.nodes <= self.quotas[job.team]:
                    victims = self.victims(job)
                    if victims is not None:
                        for victim in victims:
                            victim.nodes = []
                            actions.append(Preempt(victim.job.id))
                        actions.append(self.start(now, record))
                        changed = True
            queue = self.waiting()
            if queue and queue[0].job.nodes <= sum(map(len, self.free_racks())):
                actions.append(self.start(now, queue[0]))
                changed = True
            else:
                planned = self.plan(now, queue)
                if planned is not None:
                    actions.append(self.start(now, planned))
                    changed = True
        return actions

    def plan(self, now, queue):
        free = sum(map(len, self.free_racks()))
        profile = Profile(now, free, [(r.end, r.job.nodes) for r in self.running()])
        for record in queue[:DEPTH]:
            at = profile.earliest(record.job.nodes, record.job.seconds)
            if at == now and record.job.nodes <= free:  # what ends at this very time may not have ended yet
                return record
            if at is not None:
                profile.reserve(at, record.job.nodes, record.job.seconds)
        return None

    def victims(self, job):
        free = sum(map(len, self.free_racks()))
        borrowed = []
        for team, quota in self.quotas.items():
            total = 0
            for r in sorted((r for r in self.running() if r.job.team == team), key=lambda r: (-r.job.priority, r.turn)):
                total += r.job.nodes
                if total > quota and team != job.team:
                    borrowed.append(r)
        borrowed.sort(key=lambda r: (r.job.priority, -r.turn))
        taken = []
        while free + sum(r.job.nodes for r in taken) < job.nodes:
            if not borrowed:
                return None
            taken.append(borrowed.pop(0))
        for r in list(reversed(taken)):
            if free + sum(other.job.nodes for other in taken if other is not r) >= job.nodes:
                taken.remove(r)
        return taken

    def start(self, now, record):
        racks = self.free_racks()
        for rack in racks:
            if len(rack) >= record.job.nodes:
                nodes = rack[-record.job.nodes :]
                break
        else:
            nodes = [node for rack in racks for node in rack][: record.job.nodes]
        self.turns += 1
        record.nodes, record.start, record.turn = nodes, now, self.turns
        return Start(record.job.id, nodes)
