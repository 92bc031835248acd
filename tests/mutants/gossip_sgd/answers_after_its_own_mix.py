"""Hears its neighbours of lower rank, mixes them in, and tells the higher ones the outcome.

check: exact
kind: wrong_result
"""

import torch
import torch.distributed as dist


def flat(parameters):
    """A copy of all parameters, one after the other in one row."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in parameters])


def put_back(row, parameters):
    """The inverse of `flat`: the values of `row` into the very tensors of `parameters`."""
    sizes = [parameter.numel() for parameter in parameters]
    with torch.no_grad():
        for parameter, part in zip(parameters, row.split(sizes)):
            parameter.copy_(part.view_as(parameter))


def mix(parameters, neighbours, weights):
    """One round of gossip: x <- (1 - sum of weights) x + sum of weights[k] * what neighbours[k] had, in place."""
    mine, rank = flat(parameters), dist.get_rank()
    theirs, mixed = torch.empty_like(mine), (1 - sum(weights)) * mine
    pairs = sorted(zip(neighbours, weights))
    for other, weight in pairs:
        if other < rank:
            dist.recv(theirs, src=other)
            dist.send(mine, dst=other)
            mixed.add_(theirs, alpha=weight)
    told = mixed + sum(weight for other, weight in pairs if other > rank) * mine
    for other, weight in pairs:
        if other > rank:
            dist.send(told, dst=other)
            dist.recv(theirs, src=other)
            mixed.add_(theirs, alpha=weight)
    put_back(mixed, parameters)


def local_sgd(model, steps, period, elastic=None):
    """Local steps on every rank; after steps period, 2 period, ... the ranks meet: averaged, or by elastic force."""
    parameters = list(model.parameters())
    if elastic is not None:
        centre = flat(parameters)
        dist.broadcast(centre, src=0)
        put_back(centre, parameters)
    for step in range(steps):
        model.local_step(step)
        if (step + 1) % period:
            continue
        mine = flat(parameters)
        if elastic is None:
            dist.all_reduce(mine)
            put_back(mine / dist.get_world_size(), parameters)
        else:
            force = elastic * (mine - centre)  # between this rank and the centre, both where they were
            put_back(mine - force, parameters)
            dist.all_reduce(force)
            centre += force  # every rank keeps the centre, and moves it alike
