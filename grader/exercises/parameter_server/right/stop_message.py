"""A class keeps what each worker owes, answers by isend, and tells a worker to stop instead of counting there."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

GO, STOP = 1.0, 2.0


@dataclass
class Server:
    parameters: torch.Tensor
    owed: dict[int, int]
    lr: float
    bound: int
    version: int = 0
    round: dict[int, torch.Tensor] = field(default_factory=dict)
    pending: list = field(default_factory=list)

    def tell(self, worker: int) -> None:
        head = GO if self.owed[worker] else STOP
        body = torch.cat((torch.tensor([head, self.version], dtype=torch.float64), self.parameters.double()))
        with contextlib.suppress(RuntimeError):
            self.pending.append((dist.isend(body, worker), body))
        if not self.owed[worker]:
            del self.owed[worker]

    def step(self, gradient: torch.Tensor) -> None:
        self.parameters.sub_(gradient.to(self.parameters.dtype), alpha=self.lr)
        self.version += 1

    def asynchronous(self, worker, made_of, gradient):
        if self.version - made_of <= self.bound:
            self.step(gradient)
            self.owed[worker] -= 1
        self.tell(worker)

    def complete_round(self) -> None:
        if self.owed and self.round and self.owed.keys() <= self.round.keys():
            alive = sorted(self.owed)
            self.step(sum(self.round[w] for w in alive) / len(alive))
            self.round.clear()
            for w in alive:
                self.owed[w] -= 1
                self.tell(w)

    def run(self) -> None:
        size = torch.tensor([self.parameters.numel()])
        for w in list(self.owed):
            self.pending.append((dist.isend(size, w), size))
            self.tell(w)
        mail = torch.empty(1 + self.parameters.numel(), dtype=torch.float64)
        while self.owed:
            try:
                worker = dist.recv(mail)
            except RuntimeError as error:
                gone = re.search(r"rank (\d+)", str(error))
                if not gone:
                    raise
                self.owed.pop(int(gone[1]), None)
                self.round.pop(int(gone[1]), None)
            else:
                if self.bound:
                    self.asynchronous(worker, int(mail[0]), mail[1:])
                else:
                    self.round[worker] = mail[1:].clone()
            if not self.bound:
                self.complete_round()
        for request, _ in self.pending:
            with contextlib.suppress(RuntimeError):
                request.wait()


def serve(parameters, workers, steps, lr, max_staleness):
    Server(parameters, dict.fromkeys(workers, steps), lr, max_staleness).run()


def work(rank, gradient_fn, steps):
    size = torch.zeros(1, dtype=torch.int64)
    dist.recv(size, src=0)
    mail = torch.empty(2 + int(size), dtype=torch.float64)
    while True:
        dist.recv(mail, src=0)
        if mail[0] == STOP:
            return
        gradient = gradient_fn(mail[2:].float())
        dist.send(torch.cat((mail[1:2], gradient.double())), dst=0)
