"""Tensor by tensor: tagged messages in one batch for each mix, asynchronous all_reduces of each parameter."""

import torch
import torch.distributed as dist


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


@torch.no_grad()
def mix(parameters: list[torch.Tensor], neighbours: list[int], weights: list[float]) -> None:
    old = [copy_of(parameter) for parameter in parameters]
    heard = {rank: [torch.empty_like(tensor) for tensor in old] for rank in neighbours}
    operations = []
    for rank in neighbours:
        for tag, (mine, theirs) in enumerate(zip(old, heard[rank])):
            operations.append(dist.P2POp(dist.irecv, theirs, rank, tag=tag))
            operations.append(dist.P2POp(dist.isend, mine, rank, tag=tag))
    if operations:
        for work in dist.batch_isend_irecv(operations):
            work.wait()
    for index, parameter in enumerate(parameters):
        for rank, weight in zip(neighbours, weights):
            parameter.add_(heard[rank][index] - old[index], alpha=weight)


def sums(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The sum over all ranks of each tensor, as new tensors."""
    result = [copy_of(tensor) for tensor in tensors]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in result]
    for work in works:
        work.wait()
    return result


@torch.no_grad()
def average(parameters: list[torch.Tensor]) -> None:
    for parameter, total in zip(parameters, sums(parameters)):
        parameter.copy_(total / dist.get_world_size())


@torch.no_grad()
def pull(parameters: list[torch.Tensor], centre: list[torch.Tensor], elastic: float) -> None:
    apart = [parameter - middle for parameter, middle in zip(parameters, centre)]
    for parameter, middle, mine, total in zip(parameters, centre, apart, sums(apart)):
        parameter.sub_(mine, alpha=elastic)
        middle.add_(total, alpha=elastic)


def local_sgd(model: torch.nn.Module, steps: int, period: int, elastic: float | None = None) -> None:
    parameters = list(model.parameters())
    centre = [copy_of(parameter) for parameter in parameters]
    if elastic is not None:
        for parameter, middle in zip(parameters, centre):
            dist.broadcast(middle, 0)
            with torch.no_grad():
                parameter.copy_(middle)
    for step in range(steps):
        model.local_step(step)
        if step % period == period - 1:
            if elastic is None:
                average(parameters)
            else:
                pull(parameters, centre, elastic)
