"""Schedules as generators, and gradients by torch.autograd.grad, added up by hand."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Callable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn


def gpipe_order(stage: int, stages: int, m: int) -> Iterator[tuple[str, int]]:
    yield from (("F", i) for i in range(m))
    yield from (("B", i) for i in range(m))


def one_f_one_b_order(stage: int, stages: int, m: int) -> Iterator[tuple[str, int]]:
    ahead = min(m, stages - stage)
    f = b = 0
    while b < m:
        if f < m and f - b < ahead:
            yield "F", f
            f += 1
        else:
            yield "B", b
            b += 1


@dataclass
class Pipe:
    module: nn.Module
    m: int
    shape: tuple[int, ...]
    flying: dict[int, deque] = field(default_factory=dict)
    alive: dict[int, tuple] = field(default_factory=dict)

    def send(self, tensor: Tensor, to: int) -> None:
        queue = self.flying.setdefault(to, deque())
        while queue:
            queue.popleft().wait()
        queue.extend(dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor.detach().contiguous(), to)]))

    def receive(self, source: int) -> Tensor:
        buffer = torch.zeros(tuple(self.shape), dtype=torch.float32)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, buffer, source)]):
            work.wait()
        return buffer

    def flush(self) -> None:
        for queue in self.flying.values():
            while queue:
                queue.popleft().wait()


def execute(order: Callable, stage: nn.Module, inputs: Tensor, targets: Tensor, loss_fn: Callable, m: int) -> float | None:
    me, world = dist.get_rank(), dist.get_world_size()
    size = inputs.shape[0] // m
    pipe = Pipe(stage, m, stage.activation_shape(size))
    params = [p for p in stage.parameters() if p.requires_grad]
    losses = []
    for what, i in order(me, world, m):
        piece = slice(i * size, (i + 1) * size)
        if what == "F":
            x = inputs[piece] if me == 0 else pipe.receive(me - 1).requires_grad_(True)
            out = stage(x)
            if me == world - 1:
                out = loss_fn(out, targets[piece])
                losses.append(float(out.detach()))
            else:
                pipe.send(out, me + 1)
            pipe.alive[i] = (x, out)
            del out, x
        else:
            x, out = pipe.alive.pop(i)
            gradient = torch.tensor(1.0 / m) if me == world - 1 else pipe.receive(me + 1)
            wanted = params + ([x] if me else [])
            grads = torch.autograd.grad(out, wanted, gradient, allow_unused=True)
            del out
            for p, g in zip(params, grads):
                if g is not None:
                    p.grad = g if p.grad is None else p.grad + g
            if me:
                pipe.send(grads[-1], me - 1)
            del x, grads
    pipe.flush()
    return sum(losses) / m if me == world - 1 else None


def run_gpipe(stage, inputs, targets, loss_fn, micro_batches):
    return execute(gpipe_order, stage, inputs, targets, loss_fn, micro_batches)


def run_1f1b(stage, inputs, targets, loss_fn, micro_batches):
    return execute(one_f_one_b_order, stage, inputs, targets, loss_fn, micro_batches)
