"""A generator turns receives and deaths into events. Two plain functions, one for each mode, read them."""

import re
from contextlib import suppress

import torch
import torch.distributed as dist

SERVER = 0


def events(size, live):
    """("gradient", rank, tensor) or ("death", rank, None), as long as somebody lives."""
    while live:
        buffer = torch.empty(size)
        try:
            rank = dist.recv(buffer)
        except RuntimeError as error:
            named = re.findall(r"rank (\d+)", str(error))
            if not named:
                raise
            yield "death", int(named[-1]), None
        else:
            yield "gradient", rank, buffer


def send_parameters(rank, accepted, parameters):
    message = torch.empty(parameters.numel() + 1)
    message[0] = float(accepted)
    message[1:] = parameters.detach()
    with suppress(RuntimeError):
        dist.send(message, rank)


def serve(parameters, workers, steps, lr, max_staleness):
    if steps <= 0 or not workers:
        return
    live = set(workers)
    for rank in workers:
        with suppress(RuntimeError):
            dist.send(torch.tensor([parameters.numel()], dtype=torch.int64), rank)
        send_parameters(rank, True, parameters)
    with torch.no_grad():
        if max_staleness == 0:
            in_rounds(parameters, live, steps, lr)
        else:
            as_they_come(parameters, live, steps, lr, max_staleness)


def in_rounds(parameters, live, steps, lr):
    source = events(parameters.numel(), live)
    for _ in range(steps):
        gradients = {}
        while live - gradients.keys():
            kind, rank, gradient = next(source)
            if kind == "death":
                live.discard(rank)
            else:
                gradients[rank] = gradient
        if not gradients:
            return  # nobody is left
        parameters -= lr * (sum(gradients.values()) / len(gradients))
        for rank in sorted(live):
            send_parameters(rank, True, parameters)


def as_they_come(parameters, live, steps, lr, bound):
    applied = 0
    had = dict.fromkeys(live, 0)  # applied, when the rank was sent its parameters
    given = dict.fromkeys(live, 0)
    for kind, rank, gradient in events(parameters.numel(), live):
        if kind == "death":
            live.discard(rank)
            continue
        accepted = applied - had[rank] <= bound
        if accepted:
            parameters -= lr * gradient
            applied += 1
            given[rank] += 1
        had[rank] = applied
        send_parameters(rank, accepted, parameters)
        if given[rank] == steps:
            live.discard(rank)


def work(rank, gradient_fn, steps):
    if steps <= 0:
        return
    size = torch.zeros(1, dtype=torch.int64)
    dist.recv(size, src=SERVER)
    message = torch.empty(int(size.item()) + 1)
    dist.recv(message, src=SERVER)
    for _ in range(steps):
        accepted = False
        while not accepted:
            gradient = gradient_fn(message[1:].clone())
            dist.send(gradient.detach().contiguous().float(), SERVER)
            dist.recv(message, src=SERVER)
            accepted = bool(message[0])
