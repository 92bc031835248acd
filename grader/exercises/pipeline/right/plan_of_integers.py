"""A plan of integers (i: forward, ~i: backward). Gradients travel by isend; GPipe's backward passes go in reverse order."""

import torch
import torch.distributed as dist
from torch import Tensor, nn


def _follow(plan: list[int], stage: nn.Module, inputs: Tensor, targets: Tensor, loss_fn, m: int) -> float | None:
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    shape = tuple(stage.activation_shape(inputs.shape[0] // m))
    flight: dict[int, tuple[Tensor, Tensor]] = {}
    losses: dict[int, float] = {}
    requests = []  # of the last gradient that was sent

    def receive(source: int) -> Tensor:
        message = torch.zeros(shape, dtype=torch.float32)
        dist.recv(message, source)
        return message

    def settle() -> None:
        while requests:
            requests.pop().wait()

    def forward(i: int) -> None:
        x = inputs.chunk(m)[i] if rank == 0 else receive(rank - 1).requires_grad_()
        y = stage(x)
        if rank == last:
            y = loss_fn(y, targets.chunk(m)[i])
            losses[i] = float(y.detach())
        flight[i] = (x, y)
        if rank != last:
            dist.send(y.detach().contiguous(), rank + 1)

    def backward(i: int) -> None:
        seed = torch.tensor(1.0 / m) if rank == last else receive(rank + 1)
        x, y = flight.pop(i)
        if y.requires_grad:
            y.backward(seed.to(y) if rank == last else seed)
        if rank > 0:
            settle()
            requests.append(dist.isend(x.grad.contiguous(), rank - 1))

    for number in plan:
        if number >= 0:
            forward(number)
        else:
            backward(~number)
    settle()
    return sum(losses.values()) / m if rank == last else None


def run_gpipe(stage: nn.Module, inputs: Tensor, targets: Tensor, loss_fn, micro_batches: int) -> float | None:
    every = list(range(micro_batches))
    return _follow(every + [~i for i in reversed(every)], stage, inputs, targets, loss_fn, micro_batches)


def run_1f1b(stage: nn.Module, inputs: Tensor, targets: Tensor, loss_fn, micro_batches: int) -> float | None:
    ahead = min(dist.get_world_size() - 1 - dist.get_rank(), micro_batches)
    plan = list(range(ahead))
    for i in range(ahead, micro_batches):
        plan += [i, ~(i - ahead)]
    plan += [~i for i in range(micro_batches - ahead, micro_batches)]
    return _follow(plan, stage, inputs, targets, loss_fn, micro_batches)
