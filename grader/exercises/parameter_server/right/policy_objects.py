"""A Server class with a policy object. The server alone keeps the versions, and sends a control word before parameters."""

import contextlib
import re

import torch
import torch.distributed as dist

SERVER = 0
STOP, ACCEPTED, REFUSED = 0, 1, 2


class Server:
    def __init__(self, parameters, workers, steps, lr):
        self.parameters, self.lr = parameters, lr
        self.left = dict.fromkeys(workers, steps)
        self.version = 0
        self.sent = {}  # worker -> version of the parameters that it has

    def tell(self, worker, word):
        with contextlib.suppress(RuntimeError):
            dist.send(torch.tensor([word, self.parameters.numel()]), dst=worker)
            if word != STOP:
                dist.send(self.parameters.detach().clone().contiguous(), dst=worker)
        self.sent[worker] = self.version

    def update(self, gradient):
        with torch.no_grad():
            self.parameters.sub_(self.lr * gradient)
        self.version += 1

    def credit(self, worker):
        self.left[worker] -= 1
        if self.left[worker]:
            self.tell(worker, ACCEPTED)
        else:
            self.tell(worker, STOP)
            del self.left[worker]

    def run(self, policy):
        for worker in list(self.left):
            self.tell(worker, ACCEPTED)
        inbox = torch.empty(self.parameters.numel(), dtype=self.parameters.dtype)
        while self.left:
            try:
                sender = dist.recv(inbox)
            except RuntimeError as error:
                match = re.search(r"rank (\d+) is gone", str(error))
                if match is None:
                    raise
                self.left.pop(int(match.group(1)), None)
                policy.died()
            else:
                policy.got(sender, inbox.clone())


class Asynchronous:
    def __init__(self, server, bound):
        self.server, self.bound = server, bound

    def got(self, worker, gradient):
        age = self.server.version - self.server.sent[worker]
        if age > self.bound:
            self.server.tell(worker, REFUSED)
        else:
            self.server.update(gradient)
            self.server.credit(worker)

    def died(self):
        pass


class Rounds:
    def __init__(self, server):
        self.server = server
        self.gradients = {}

    def got(self, worker, gradient):
        self.gradients[worker] = gradient
        self.close()

    def died(self):
        self.close()

    def close(self):
        if not self.gradients or set(self.server.left) - set(self.gradients):
            return
        total = torch.zeros_like(next(iter(self.gradients.values())))
        for worker in sorted(self.gradients):
            total += self.gradients[worker]
        self.server.update(total / len(self.gradients))
        done, self.gradients = self.gradients, {}
        for worker in done:
            if worker in self.server.left:
                self.server.credit(worker)


def serve(parameters, workers, steps, lr, max_staleness):
    if steps < 1:
        return
    server = Server(parameters, workers, steps, lr)
    server.run(Rounds(server) if max_staleness == 0 else Asynchronous(server, max_staleness))


def work(rank, gradient_fn, steps):
    if steps < 1:
        return
    control = torch.zeros(2, dtype=torch.int64)
    while True:
        dist.recv(control, src=SERVER)
        word, size = control.tolist()
        if word == STOP:
            return
        parameters = torch.empty(size)
        dist.recv(parameters, src=SERVER)
        gradient = gradient_fn(parameters)
        dist.send(gradient.detach().to(torch.float32).contiguous(), dst=SERVER)
