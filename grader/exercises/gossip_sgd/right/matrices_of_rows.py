"""Mixing is a vector times a matrix of rows in float64. Meetings gather all rows, and all ranks compute alike."""

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


def rows_of(row: torch.Tensor, neighbours: list[int]) -> torch.Tensor:
    """My row and then each neighbour's, as a matrix."""
    table = row.new_empty((1 + len(neighbours), row.numel()))
    table[0] = row
    requests = []
    for line, rank in zip(table[1:], neighbours):
        requests.append(dist.irecv(line, rank))
    for rank in neighbours:
        dist.send(row, rank)
    for request in requests:
        request.wait()
    return table


def mix(parameters: list[torch.Tensor], neighbours: list[int], weights: list[float]) -> None:
    table = rows_of(flat(parameters), neighbours)
    factors = torch.tensor([1.0 - sum(weights), *weights], dtype=torch.float64)
    mixed = (factors[:, None] * table.double()).sum(0)
    put_back(mixed.to(table.dtype), parameters)


def everybody(row: torch.Tensor) -> torch.Tensor:
    rows = [torch.empty_like(row) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, row)
    return torch.stack(rows)


def plainly(parameters: list[torch.Tensor]):
    def meet() -> None:
        put_back(everybody(flat(parameters)).mean(0), parameters)

    return meet


def elastically(parameters: list[torch.Tensor], elastic: float):
    centre = flat(parameters)
    dist.broadcast(centre, 0)
    put_back(centre, parameters)

    def meet() -> None:
        nonlocal centre
        forces = elastic * (everybody(flat(parameters)) - centre)
        put_back(flat(parameters) - forces[dist.get_rank()], parameters)
        centre = centre + forces.sum(0)

    return meet


def local_sgd(model: torch.nn.Module, steps: int, period: int, elastic: float | None = None) -> None:
    parameters = list(model.parameters())
    meet = plainly(parameters) if elastic is None else elastically(parameters, elastic)
    for first in range(0, steps, period):
        block = range(first, min(first + period, steps))
        for step in block:
            model.local_step(step)
        if len(block) == period:
            meet()
