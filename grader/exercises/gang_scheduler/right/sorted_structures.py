"""Kept up to date instead of computed anew: a sorted queue, running jobs by team, free nodes by rack. Backfill takes the
shortest job first, and a job goes to the rack with the most free nodes."""

from bisect import bisect_left, insort

from grader.scheduling import Preempt, Start


class Entry:
    """A job, where it waits or runs."""

    def __init__(self, job, number):
        self.job = job
        self.place = (1, -job.priority, number)  # in the queue
        self.nodes = None
        self.rank = self.end = None  # while it runs: its importance within its team, and its bound

    def __lt__(self, other):
        return self.place < other.place


class Scheduler:
    def __init__(self, racks, quotas):
        self.rack_of = {node: at for at, rack in enumerate(racks) for node in rack}
        self.pools = [sorted(rack) for rack in racks]
        self.free = sum(map(len, racks))
        self.quota = quotas
        self.used = dict.fromkeys(quotas, 0)
        self.by_team = {team: [] for team in quotas}  # (rank, entry), the most important first
        self.ends = []  # (bound, name, nodes) of what runs
        self.queue = []
        self.entries = {}
        self.on = {}  # by node, the entry that runs there
        self.count = self.failures = 0

    def submit(self, now, job):
        self.entries[job.id] = entry = Entry(job, len(self.entries))
        insort(self.queue, entry)
        return self._settle(now)

    def finished(self, now, job_id):
        self._release(self.entries[job_id])
        return self._settle(now)

    def failed(self, now, node):
        entry = self.on.get(node)
        if entry is not None:
            self._release(entry)
            self.failures += 1
            entry.place = (0, -self.failures, 0)
            insort(self.queue, entry)
        self.pools[self.rack_of[node]].remove(node)
        self.free -= 1
        return self._settle(now)

    def repaired(self, now, node):
        insort(self.pools[self.rack_of[node]], node)
        self.free += 1
        return self._settle(now)

    def _release(self, entry):
        job = entry.job
        for node in entry.nodes:
            del self.on[node]
            insort(self.pools[self.rack_of[node]], node)
        self.free += job.nodes
        self.used[job.team] -= job.nodes
        self.by_team[job.team].remove((entry.rank, entry))
        self.ends.remove((entry.end, job.id, job.nodes))
        entry.nodes = None

    def _start(self, now, entry):
        job = entry.job
        del self.queue[bisect_left(self.queue, entry)]
        pools = sorted(self.pools, key=len, reverse=True)
        nodes = []
        for pool in pools:
            while pool and len(nodes) < job.nodes:
                node = pool.pop()
                nodes.append(node)
                self.on[node] = entry
        self.count += 1
        entry.nodes, entry.rank, entry.end = nodes, (-job.priority, self.count), now + job.seconds
        self.free -= job.nodes
        self.used[job.team] += job.nodes
        insort(self.by_team[job.team], (entry.rank, entry))
        insort(self.ends, (entry.end, job.id, job.nodes))
        return Start(job.id, nodes)

    def _borrowed(self):
        found = []
        for team, runs in self.by_team.items():
            over = self.used[team] - self.quota[team]
            for rank, entry in reversed(runs):  # the least important first: borrowed while those before reach beyond
                if over <= 0:
                    break
                found.append((rank, entry))
                over -= entry.job.nodes
        found.sort(reverse=True)
        return [entry for _, entry in found]

    def _settle(self, now):
        actions = []
        while self._owed(now, actions) or self._head(now, actions) or self._gap(now, actions):
            continue
        return actions

    def _owed(self, now, actions):
        borrowed = None
        for entry in self.queue:
            job = entry.job
            if self.used[job.team] + job.nodes > self.quota[job.team]:
                continue
            missing = job.nodes - self.free
            if missing > 0:
                borrowed = self._borrowed() if borrowed is None else borrowed
                taken, got = [], 0
                for other in borrowed:
                    if got >= missing:
                        break
                    taken.append(other)
                    got += other.job.nodes
                if got < missing:
                    continue
                kept = []
                for other in reversed(taken):
                    if got - other.job.nodes >= missing:
                        got -= other.job.nodes
                    else:
                        kept.append(other)
                for other in kept:
                    self._release(other)
                    insort(self.queue, other)
                    actions.append(Preempt(other.job.id))
            actions.append(self._start(now, entry))
            return True
        return False

    def _head(self, now, actions):
        if self.queue and self.queue[0].job.nodes <= self.free:
            actions.append(self._start(now, self.queue[0]))
            return True
        return False

    def _gap(self, now, actions):
        if len(self.queue) < 2 or not self.free:
            return False
        need, at, free = self.queue[0].job.nodes, None, self.free
        for end, _, nodes in self.ends:
            if at is not None and end > at:
                break
            free += nodes
            if at is None and free >= need:
                at = end
        allowed = [
            entry
            for entry in self.queue[1:]
            if entry.job.nodes <= self.free
            and (at is None or now + entry.job.seconds <= at or free - entry.job.nodes >= need)
        ]
        if not allowed:
            return False
        actions.append(self._start(now, min(allowed, key=lambda entry: entry.job.seconds)))
        return True
