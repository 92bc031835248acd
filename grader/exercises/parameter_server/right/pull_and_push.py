"""Right: workers pull parameters and push gradients, each a request of its own; what is left of a round is a list."""

import torch
import torch.distributed as dist

PULL, PUSH = 0.0, 1.0


def serve(parameters, workers, steps, lr, max_staleness):
    numel = len(parameters)
    for worker in workers:
        dist.send(torch.tensor(float(numel)).reshape(1), worker)
    finished, dead = set(), set()
    given = dict.fromkeys(workers, 0)
    clock = 0
    held = []  # pushes of the round: (worker, gradient)
    request = torch.zeros(numel + 2)  # what, version, gradient

    def live():
        return [worker for worker in workers if worker not in finished | dead]

    def acknowledge(worker, yes):
        given[worker] += yes
        if given[worker] == steps:
            finished.add(worker)
        dist.send(torch.tensor([1.0 if yes else 0.0]), worker)

    while live():
        try:
            worker = dist.recv(request)
        except RuntimeError as error:
            text = str(error)
            dead |= {worker for worker in workers if f"rank {worker} " in text}
            worker = None
        if worker is not None and request[0] == PULL:
            dist.send(torch.cat([parameters, torch.tensor([float(clock)])]), worker)
        elif worker is not None and max_staleness == 0:
            held.append((worker, request[2:].clone()))
        elif worker is not None:
            fresh = clock - request[1] <= max_staleness
            if fresh:
                parameters -= lr * request[2:]
                clock += 1
            acknowledge(worker, fresh)
        if held and len([pair for pair in held if pair[0] not in dead]) == len(live()):
            total = torch.zeros_like(parameters)
            for _, gradient in held:
                total += gradient
            parameters -= lr * total / len(held)
            clock += 1
            everyone, held = held, []
            for sender, _ in everyone:
                if sender not in dead:
                    acknowledge(sender, True)


def work(rank, gradient_fn, steps):
    numel = torch.zeros(1)
    dist.recv(numel, 0)
    numel = int(numel.item())
    yes = torch.zeros(1)
    for _ in range(steps):
        yes.zero_()
        while not yes:
            dist.send(torch.cat([torch.tensor([PULL, 0.0]), torch.zeros(numel)]), 0)
            pulled = torch.zeros(numel + 1)
            dist.recv(pulled, 0)
            gradient = gradient_fn(pulled[:numel].clone())
            dist.send(torch.cat([torch.tensor([PUSH, pulled[numel].item()]), gradient]), 0)
            dist.recv(yes, 0)
