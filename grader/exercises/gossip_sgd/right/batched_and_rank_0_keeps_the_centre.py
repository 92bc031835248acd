"""batch_isend_irecv and a matrix product; the centre lives on rank 0 alone, as on a parameter server."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector


def write(vector: torch.Tensor, tensors: Iterable[torch.Tensor]) -> None:
    position = 0
    for tensor in tensors:
        tensor.data.copy_(vector[position : position + tensor.numel()].reshape(tensor.shape))
        position += tensor.numel()


def mix(parameters: list[torch.Tensor], neighbours: list[int], weights: list[float]) -> None:
    if len(neighbours) == 0:
        return
    own = parameters_to_vector(parameters).detach()
    rows = torch.empty(len(neighbours) + 1, own.numel(), dtype=own.dtype)
    rows[0] = own
    operations = []
    for place, other in enumerate(neighbours, start=1):
        operations.append(dist.P2POp(dist.isend, rows[0], other))
        operations.append(dist.P2POp(dist.irecv, rows[place], other))
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    row = torch.tensor([1 - sum(weights), *weights], dtype=own.dtype)
    write(row @ rows, parameters)


class Centre:
    """The centre variable of elastic averaging, at rank 0."""

    def __init__(self, model: torch.nn.Module, elastic: float) -> None:
        self.model, self.elastic = model, elastic
        self.value = parameters_to_vector(model.parameters()).detach().clone()
        dist.broadcast(self.value, 0)
        write(self.value, model.parameters())

    def meet(self) -> None:
        first = dist.get_rank() == 0
        x = parameters_to_vector(self.model.parameters()).detach().clone()
        old = self.value.clone()
        dist.broadcast(old, 0)
        everyone = [torch.empty_like(x) for _ in range(dist.get_world_size())] if first else None
        dist.gather(x, everyone, dst=0)
        write(torch.lerp(x, old, self.elastic), self.model.parameters())
        if everyone is not None:
            self.value = old + self.elastic * sum(other - old for other in everyone)


def local_sgd(model: torch.nn.Module, steps: int, period: int, elastic: float | None = None) -> None:
    centre = None if elastic is None else Centre(model, elastic)
    done = 0
    while done < steps:
        for _ in range(min(period, steps - done)):
            model.local_step(done)
            done += 1
        if done % period == 0:
            if centre is not None:
                centre.meet()
            else:
                vector = parameters_to_vector(model.parameters()).detach().clone()
                dist.reduce(vector, 0)
                vector /= dist.get_world_size()
                dist.broadcast(vector, 0)
                write(vector, model.parameters())
