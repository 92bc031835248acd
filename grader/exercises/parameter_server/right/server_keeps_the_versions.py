"""Right: a class on the server that keeps which version it sent to whom, headers in messages of their own, numpy."""

import re
from collections import Counter

import numpy as np
import torch
from torch import distributed as dist

SIZE, TAKEN, REFUSED = 0, 1, 2


class Server:
    def __init__(self, parameters, workers, steps, lr, max_staleness):
        self.parameters, self.lr, self.max_staleness, self.steps = parameters, lr, max_staleness, steps
        self.alive = set(workers)
        self.updates = 0
        self.sent_at = {}
        self.accepted = Counter()
        for worker in workers:
            dist.send(torch.tensor([SIZE, parameters.numel()]), worker)
            self.give(worker)

    def give(self, worker):
        self.sent_at[worker] = self.updates
        dist.send(self.parameters, worker)

    def reply(self, worker, what):
        if worker not in self.alive:
            return
        dist.send(torch.tensor([what, 0]), worker)
        self.accepted[worker] += what == TAKEN
        if self.accepted[worker] < self.steps:
            self.give(worker)

    @property
    def working(self):
        return {worker for worker in self.alive if self.accepted[worker] < self.steps}

    def next_gradient(self):
        """(worker, gradient) or (None, None) when one has died."""
        header = torch.zeros(1, dtype=torch.int32)
        try:
            source = dist.recv(header)
            gradient = torch.empty_like(self.parameters)
            dist.recv(gradient, src=source)
            return source, gradient.numpy()
        except RuntimeError as gone:
            self.alive.discard(int(re.findall(r"rank (\d+)", str(gone))[-1]))
            return None, None

    def step(self, direction):
        values = self.parameters.numpy()
        values -= np.float32(self.lr) * direction
        self.updates += 1

    def run_asynchronously(self):
        while self.working:
            worker, gradient = self.next_gradient()
            if worker is None:
                continue
            if self.updates - self.sent_at[worker] > self.max_staleness:
                self.reply(worker, REFUSED)
                continue
            self.step(gradient)
            self.reply(worker, TAKEN)

    def run_in_rounds(self):
        for _ in range(self.steps):
            got = {}
            while self.alive - got.keys():
                worker, gradient = self.next_gradient()
                if worker is not None:
                    got[worker] = gradient
            if not got:
                return
            self.step(sum(got.values()) / np.float32(len(got)))
            for worker in got:
                self.reply(worker, TAKEN)


def serve(parameters, workers, steps, lr, max_staleness):
    server = Server(parameters, workers, steps, lr, max_staleness)
    server.run_asynchronously() if max_staleness else server.run_in_rounds()


def work(rank, gradient_fn, steps):
    head = torch.zeros(2, dtype=torch.int64)
    dist.recv(head, src=0)
    parameters = torch.zeros(head[1].item())
    given = 0
    while given < steps:
        dist.recv(parameters, src=0)
        gradient = gradient_fn(parameters)
        dist.send(torch.zeros(1, dtype=torch.int32), dst=0)
        dist.send(gradient, dst=0)
        dist.recv(head, src=0)
        given += int(head[0] == TAKEN)
