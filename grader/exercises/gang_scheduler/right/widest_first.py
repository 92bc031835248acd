"""Plain dicts and functions on one state. Backfill takes the job with the most nodes first, and of equal ones the last."""

import itertools

from grader.scheduling import Preempt, Start


def queue_of(s):
    return sorted((j for j in s["jobs"] if j not in s["runs"]), key=lambda j: s["key"][j])


def free_of(s):
    busy = set(itertools.chain(s["down"], *(nodes for nodes, _, _ in s["runs"].values())))
    return {rack: [n for n in nodes if n not in busy] for rack, nodes in enumerate(s["racks"])}


def count_free(s):
    return sum(len(nodes) for nodes in free_of(s).values())


def used_of(s, team):
    return sum(s["jobs"][j].nodes for j in s["runs"] if s["jobs"][j].team == team)


def borrowed_of(s, but):
    def importance(j):
        return (-s["jobs"][j].priority, s["runs"][j][2])

    def before(j):
        mine = s["jobs"][j]
        return sum(
            s["jobs"][o].nodes for o in s["runs"] if s["jobs"][o].team == mine.team and importance(o) <= importance(j)
        )

    found = [j for j in s["runs"] if s["jobs"][j].team != but and before(j) > s["quotas"][s["jobs"][j].team]]
    return sorted(found, key=importance)[::-1]


def take(s, job):
    taken, free = [], count_free(s)
    lacks = lambda some: free + sum(s["jobs"][j].nodes for j in some) < job.nodes
    for j in borrowed_of(s, job.team):
        if not lacks(taken):
            break
        taken.append(j)
    if lacks(taken):
        return None
    for j in taken[::-1]:
        rest = [o for o in taken if o != j]
        if not lacks(rest):
            taken = rest
    return taken


def begin(s, now, j):
    want, racks = s["jobs"][j].nodes, sorted(free_of(s).values(), key=len)
    roomy = [r for r in racks if len(r) >= want]
    nodes = (roomy[-1] if roomy else list(itertools.chain(*racks)))[:want]
    s["runs"][j] = (nodes, now, next(s["clock"]))
    return Start(j, nodes)


def one_step(s, now):
    for j in queue_of(s):
        job = s["jobs"][j]
        if used_of(s, job.team) + job.nodes <= s["quotas"][job.team]:
            victims = take(s, job)
            if victims is not None:
                for v in victims:
                    del s["runs"][v]
                return [*map(Preempt, victims), begin(s, now, j)]
    queue = queue_of(s)
    if not queue:
        return []
    first, free = s["jobs"][queue[0]], count_free(s)
    if first.nodes <= free:
        return [begin(s, now, first.id)]
    ends = sorted({start + s["jobs"][j].seconds for j, (_, start, _) in s["runs"].items()})

    def at(time, extra=()):
        """Free nodes at a time, by the bounds, where `extra` starts now."""
        runs = [(s["jobs"][j], start) for j, (_, start, _) in s["runs"].items()] + [(job, now) for job in extra]
        return free - sum(job.nodes for job in extra) + sum(job.nodes for job, start in runs if start + job.seconds <= time)

    shadow = next((time for time in ends if at(time) >= first.nodes), None)
    may = [
        s["jobs"][j]
        for j in queue[1:]
        if s["jobs"][j].nodes <= free and (shadow is None or at(shadow, [s["jobs"][j]]) >= first.nodes)
    ]
    if not may:
        return []
    widest = max(job.nodes for job in may)
    return [begin(s, now, [job.id for job in may if job.nodes == widest][-1])]


class Scheduler:
    def __init__(self, racks, quotas):
        self.s = {"racks": racks, "quotas": quotas, "jobs": {}, "runs": {}, "key": {}, "down": set()}
        self.s["clock"] = itertools.count()

    def _all(self, now):
        return list(itertools.chain(*iter(lambda: one_step(self.s, now), [])))

    def submit(self, now, job):
        self.s["jobs"][job.id] = job
        self.s["key"][job.id] = (0, -job.priority, next(self.s["clock"]))
        return self._all(now)

    def finished(self, now, job_id):
        del self.s["runs"][job_id], self.s["jobs"][job_id]
        return self._all(now)

    def failed(self, now, node):
        self.s["down"].add(node)
        for j, (nodes, _, _) in list(self.s["runs"].items()):
            if node in nodes:
                del self.s["runs"][j]
                self.s["key"][j] = (-1, -next(self.s["clock"]))
        return self._all(now)

    def repaired(self, now, node):
        self.s["down"].remove(node)
        return self._all(now)
