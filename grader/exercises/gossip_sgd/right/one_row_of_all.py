"""One row of all parameters: irecv and isend to each neighbor, all_reduce of the row or of the forces."""

from collections.abc import Iterable

import torch
import torch.distributed as dist


def flat(parameters: Iterable[torch.Tensor]) -> torch.Tensor:
    """A copy of all parameters, one after the other in one row."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in parameters])


def put_back(row: torch.Tensor, parameters: list[torch.Tensor]) -> None:
    """The inverse of `flat`: the values of `row` into the very tensors of `parameters`."""
    sizes = [parameter.numel() for parameter in parameters]
    with torch.no_grad():
        for parameter, part in zip(parameters, row.split(sizes)):
            parameter.copy_(part.view_as(parameter))


def mix(parameters: list[torch.Tensor], neighbours: list[int], weights: list[float]) -> None:
    row = flat(parameters)
    incoming = [torch.empty_like(row) for _ in neighbours]
    requests = [dist.irecv(box, rank) for box, rank in zip(incoming, neighbours)]
    requests += [dist.isend(row, rank) for rank in neighbours]
    for request in requests:
        request.wait()
    mixed = (1 - sum(weights)) * row
    for box, weight in zip(incoming, weights):
        mixed += weight * box
    put_back(mixed, parameters)


def local_sgd(model: torch.nn.Module, steps: int, period: int, elastic: float | None = None) -> None:
    parameters = list(model.parameters())
    if elastic is not None:
        centre = flat(parameters)
        dist.broadcast(centre, 0)
        put_back(centre, parameters)

    for step in range(steps):
        model.local_step(step)
        if (step + 1) % period:
            continue
        row = flat(parameters)
        if elastic is None:
            dist.all_reduce(row)
            put_back(row / dist.get_world_size(), parameters)
        else:
            force = elastic * (row - centre)
            put_back(row - force, parameters)
            dist.all_reduce(force)
            centre += force
