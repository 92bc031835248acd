"""One event loop. The version travels with the parameters and comes back in the gradient's message."""

import contextlib
import re

import torch
import torch.distributed as dist

SERVER = 0


def serve(parameters, workers, steps, lr, max_staleness):
    if steps <= 0:
        return
    owed = {worker: steps for worker in workers}  # the live ones
    in_round = {}  # with max_staleness 0: a gradient of each worker
    inbox = torch.empty(1 + parameters.numel(), dtype=torch.float64)
    version = 0

    def answer(worker, accepted):
        head = torch.tensor([float(accepted), float(version)], dtype=torch.float64)
        with contextlib.suppress(RuntimeError):  # it died just now: a receive will tell
            dist.send(torch.cat([head, parameters.detach().to(torch.float64)]), worker)

    def given(worker):
        if worker in owed:
            owed[worker] -= 1
            answer(worker, accepted=True)
            if owed[worker] == 0:
                del owed[worker]

    for worker in workers:
        with contextlib.suppress(RuntimeError):
            dist.send(torch.tensor([parameters.numel()]), worker)
        answer(worker, accepted=True)
    while owed:
        try:
            sender = dist.recv(inbox)
        except RuntimeError as error:
            gone = re.search(r"rank (\d+)", str(error))
            if gone is None:
                raise
            owed.pop(int(gone[1]), None)
        else:
            gradient = inbox[1:].to(parameters.dtype, copy=True)
            if max_staleness == 0:
                in_round[sender] = gradient
            elif version - int(inbox[0]) > max_staleness:
                answer(sender, accepted=False)
            else:
                with torch.no_grad():
                    parameters -= lr * gradient
                version += 1
                given(sender)
        if in_round and in_round.keys() >= owed.keys():
            with torch.no_grad():
                parameters -= lr * torch.stack(list(in_round.values())).mean(0)
            version += 1
            for worker in list(in_round):
                given(worker)
            in_round.clear()


def work(rank, gradient_fn, steps):
    if steps <= 0:
        return
    size = torch.zeros(1, dtype=torch.int64)
    dist.recv(size, src=SERVER)
    message = torch.empty(2 + int(size), dtype=torch.float64)
    dist.recv(message, src=SERVER)
    accepted = 0
    while accepted < steps:
        gradient = gradient_fn(message[2:].to(torch.float32))
        dist.send(torch.cat([message[1:2], gradient.detach().reshape(-1).to(torch.float64)]), SERVER)
        dist.recv(message, src=SERVER)
        accepted += int(message[0])
