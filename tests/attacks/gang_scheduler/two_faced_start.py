"""Returns a Start whose nodes are others each time they are read: free ones first, then none.

family: odd_objects
tries: points
earned: 0
ends: wrong_result, crash, sandbox_violation, not_available, too_slow
"""

from grader.scheduling import Start


class Nodes(list):
    def __iter__(self):
        self.reads = getattr(self, "reads", 0) + 1
        return iter(list.copy(self) if self.reads % 2 else [])

    def __len__(self):
        return 10**6


class Scheduler:
    def __init__(self, racks, quotas):
        self.nodes = [node for rack in racks for node in rack]

    def submit(self, now, job):
        return [Start(job.id, Nodes(self.nodes[: job.nodes])), Start(job.id, Nodes(self.nodes[: job.nodes]))]

    def finished(self, now, job_id):
        return []

    def failed(self, now, node):
        return []

    def repaired(self, now, node):
        return []
