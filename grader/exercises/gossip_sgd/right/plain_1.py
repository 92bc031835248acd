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
    mine = flat(parameters)
    heard = [torch.empty_like(mine) for _ in neighbours]
    requests = [dist.irecv(theirs, src=rank) for theirs, rank in zip(heard, neighbours)]
    requests += [dist.isend(mine, dst=rank) for rank in neighbours]
    for request in requests:
        request.wait()
    mixed = (1 - sum(weights)) * mine
    for theirs, weight in zip(heard, weights):
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
