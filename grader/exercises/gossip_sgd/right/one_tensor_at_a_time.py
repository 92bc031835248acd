"""Blocking messages, a tensor at a time, edge by edge in one global order; the average by an all-reduce a parameter."""

import torch
import torch.distributed as dist


def exchange(mine: torch.Tensor, other: int) -> torch.Tensor:
    """Swap with one neighbour: the lower rank speaks first."""
    theirs = torch.zeros_like(mine)
    if dist.get_rank() < other:
        dist.send(mine, other)
        dist.recv(theirs, other)
    else:
        dist.recv(theirs, other)
        dist.send(mine, other)
    return theirs


def mix(parameters: list[torch.Tensor], neighbours: list[int], weights: list[float]) -> None:
    weight_of = dict(zip(neighbours, weights, strict=True))
    with torch.no_grad():
        for parameter in parameters:
            old = parameter.detach().clone()
            difference = torch.zeros_like(old)
            for other in sorted(weight_of):
                difference += weight_of[other] * (exchange(old, other) - old)
            parameter += difference


@torch.no_grad()
def local_sgd(model: torch.nn.Module, steps: int, period: int, elastic: float | None = None) -> None:
    n = dist.get_world_size()
    centre: list[torch.Tensor] = []
    if elastic is not None:
        for parameter in model.parameters():
            dist.broadcast(parameter.data, src=0)
            centre.append(parameter.detach().clone())
    for step in range(1, steps + 1):
        model.local_step(step)
        if step % period != 0:
            continue
        if elastic is None:
            for parameter in model.parameters():
                parameter /= n
                dist.all_reduce(parameter)
            continue
        for parameter, middle in zip(model.parameters(), centre, strict=True):
            total = parameter.detach().clone()
            dist.all_reduce(total)
            new_middle = (1 - n * elastic) * middle + elastic * total
            parameter.mul_(1 - elastic).add_(middle, alpha=elastic)
            middle.copy_(new_middle)
