"""Goes through the queue once for each rule, and begins again if anything was started. Forgets who failed when the job
starts again. Backfill begins at the end of the queue."""

from grader.scheduling import Preempt, Start


class Scheduler:
    def __init__(self, racks, quotas):
        self.rack = {node: tuple(rack) for rack in racks for node in rack}
        self.quotas = quotas
        self.idle = list(self.rack)
        self.unwell = []
        self.failed_jobs = []  # the last first
        self.normal_jobs = []  # by submit
        self.running = []  # [job, nodes, since], by start

    def submit(self, now, job):
        self.normal_jobs.append((job, False))
        return self.go(now)

    def finished(self, now, job_id):
        self.halt(job_id)
        self.forget(job_id)
        return self.go(now)

    def failed(self, now, node):
        for job, nodes, _ in self.running[:]:
            if node in nodes:
                self.halt(job.id)
                self.failed_jobs.insert(0, job.id)
        self.idle.remove(node)
        self.unwell.append(node)
        return self.go(now)

    def repaired(self, now, node):
        self.unwell.remove(node)
        self.idle.append(node)
        return self.go(now)

    def halt(self, job_id):
        at = next(i for i, (job, _, _) in enumerate(self.running) if job.id == job_id)
        job, nodes, _ = self.running.pop(at)
        self.idle += nodes

    def forget(self, job_id):
        self.normal_jobs = [(job, flag) for job, flag in self.normal_jobs if job.id != job_id]
        self.failed_jobs = [other for other in self.failed_jobs if other != job_id]

    def queue(self):
        busy = {job.id for job, _, _ in self.running}
        waiting = [job for job, _ in self.normal_jobs if job.id not in busy]
        front = [job for name in self.failed_jobs for job in waiting if job.id == name]
        rest = [job for job in waiting if job.id not in self.failed_jobs]
        return front + sorted(rest, key=lambda job: job.priority, reverse=True)

    def of_team(self, team):
        runs = [run for run in self.running if run[0].team == team]
        return sorted(runs, key=lambda run: -run[0].priority)  # stable: by start

    def fits_quota(self, job):
        return job.nodes + sum(run[0].nodes for run in self.of_team(job.team)) <= self.quotas[job.team]

    def launch(self, now, job, out):
        if job.id in self.failed_jobs:
            self.failed_jobs.remove(job.id)
        by_rack = {}
        for node in self.idle:
            by_rack.setdefault(self.rack[node], []).append(node)
        groups = list(by_rack.values())
        chosen = next((group for group in groups if len(group) >= job.nodes), sum(groups, []))[: job.nodes]
        self.idle = [node for node in self.idle if node not in chosen]
        self.running.append([job, chosen, now])
        out.append(Start(job.id, chosen))

    def candidates(self, but):
        out = []
        for team, quota in self.quotas.items():
            level = 0
            for run in self.of_team(team):
                level += run[0].nodes
                if level > quota and team != but:
                    out.append(run)
        return sorted(out, key=lambda run: (run[0].priority, -self.running.index(run)))

    def choose(self, job):
        chosen, have = [], len(self.idle)
        for run in self.candidates(job.team):
            if have >= job.nodes:
                break
            chosen.append(run)
            have += run[0].nodes
        if have < job.nodes:
            return None
        for run in reversed(chosen.copy()):
            if have - run[0].nodes >= job.nodes:
                have -= run[0].nodes
                chosen.remove(run)
        return chosen

    def go(self, now):
        out, before = [], -1
        while len(out) != before:
            before = len(out)
            for job in self.queue():
                if self.fits_quota(job):
                    chosen = self.choose(job)
                    if chosen is None:
                        continue
                    for run in chosen:
                        self.halt(run[0].id)
                        out.append(Preempt(run[0].id))
                    self.launch(now, job, out)
            queue = self.queue()
            if not queue:
                break
            if queue[0].nodes <= len(self.idle):
                self.launch(now, queue[0], out)
                continue
            for job in reversed(queue[1:]):
                if job.nodes <= len(self.idle) and self.harmless(now, queue[0], job):
                    self.launch(now, job, out)
        return out

    def harmless(self, now, first, job):
        then = self.soonest(now, first, [])
        return then is None or self.soonest(now, first, [[job, [None] * job.nodes, now]]) == then

    def soonest(self, now, first, more):
        runs = sorted(self.running + more, key=lambda run: run[2] + run[0].seconds)
        have = len(self.idle) - sum(len(run[1]) for run in more)
        for job, nodes, since in runs:
            have += len(nodes)
            if have >= first.nodes:
                return since + job.seconds
        return None
