"""Blocking messages in a global order of the links. The center lives on rank 0 alone."""

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
    if not neighbours:
        return
    rank = dist.get_rank()
    row = flat(parameters)
    heard = {}
    # Links are served in the same order everywhere, the lower rank speaks first: no circle of waiting ranks.
    for other in sorted(neighbours, key=lambda other: (min(rank, other), max(rank, other))):
        heard[other] = torch.empty_like(row)
        if rank < other:
            dist.send(row, other)
            dist.recv(heard[other], other)
        else:
            dist.recv(heard[other], other)
            dist.send(row, other)
    keep = 1.0
    result = torch.zeros_like(row)
    for other, weight in zip(neighbours, weights):
        result.add_(heard[other], alpha=weight)
        keep -= weight
    put_back(result.add_(row, alpha=keep), parameters)


class Averaging:
    def __init__(self, parameters: list[torch.Tensor]) -> None:
        self.parameters = parameters

    def begin(self) -> None:
        pass

    def meet(self) -> None:
        row = flat(self.parameters)
        dist.reduce(row, 0)
        if dist.get_rank() == 0:
            row /= dist.get_world_size()
        dist.broadcast(row, 0)
        put_back(row, self.parameters)


class Elastic(Averaging):
    def __init__(self, parameters: list[torch.Tensor], elastic: float) -> None:
        super().__init__(parameters)
        self.elastic = elastic
        self.centre = flat(parameters)  # only rank 0's counts; elsewhere it is overwritten at each meeting

    def begin(self) -> None:
        dist.broadcast(self.centre, 0)
        put_back(self.centre, self.parameters)

    def meet(self) -> None:
        dist.broadcast(self.centre, 0)
        row = flat(self.parameters)
        force = self.elastic * (row - self.centre)
        put_back(row - force, self.parameters)
        dist.reduce(force, 0)
        if dist.get_rank() == 0:
            self.centre = self.centre + force


def local_sgd(model: torch.nn.Module, steps: int, period: int, elastic: float | None = None) -> None:
    parameters = list(model.parameters())
    rule = Averaging(parameters) if elastic is None else Elastic(parameters, elastic)
    rule.begin()
    done = 0
    while done < steps:
        model.local_step(done)
        done += 1
        if done % period == 0:
            rule.meet()
