"""An autograd.Function saves a unit's input only, and runs the unit once more, with its buffers and random numbers."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn


def random_states(x: torch.Tensor) -> list[torch.Tensor]:
    states = [torch.get_rng_state()]
    if x.is_cuda:
        states.append(torch.cuda.get_rng_state(x.device))
    return states


def set_random_states(x: torch.Tensor, states: list[torch.Tensor]) -> None:
    torch.set_rng_state(states[0])
    if x.is_cuda:
        torch.cuda.set_rng_state(states[1], x.device)


class Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, anchor, unit):  # the anchor makes the output need a gradient where x does not
        ctx.unit = unit
        ctx.save_for_backward(x)
        ctx.buffers = [b.clone() for b in unit.module.buffers()]
        unit.gather()
        before = random_states(x)
        y = unit.compute(x)
        after = random_states(x)
        unit.release()
        drawn = any(not torch.equal(a, b) for a, b in zip(before, after))
        ctx.random = before if drawn else None
        return y

    @staticmethod
    def backward(ctx, grad):
        unit = ctx.unit
        (saved,) = ctx.saved_tensors
        wanted = ctx.needs_input_grad[0]
        x = saved.detach()
        if wanted:
            x.requires_grad_()
        unit.gather()
        buffers_now = [b.clone() for b in unit.module.buffers()]
        for b, old in zip(unit.module.buffers(), ctx.buffers):
            b.copy_(old)
        random_now = random_states(x)
        if ctx.random is not None:
            set_random_states(x, ctx.random)
        with torch.enable_grad():
            y = unit.compute(x)
        if ctx.random is not None:
            set_random_states(x, random_now)
        inputs = [*unit.params, x] if wanted else unit.params
        grads = torch.autograd.grad(y, inputs, grad, allow_unused=True)
        del y
        for b, new in zip(unit.module.buffers(), buffers_now):
            b.copy_(new)
        unit.release()
        unit.reduce(grads[: len(unit.params)])
        return grads[-1] if wanted else None, None, None


class Unit:
    def __init__(self, module: nn.Module) -> None:
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        self.module = module
        self.params = list(module.parameters())
        self.sizes = [p.numel() for p in self.params]
        self.part = -(-sum(self.sizes) // self.world)
        self.mean = None
        flat = torch.cat([p.detach().reshape(-1) for p in self.params])
        flat = nn.functional.pad(flat, (0, self.part * self.world - flat.numel()))
        self.shard = nn.Parameter(flat[self.rank * self.part :][: self.part].clone())
        self.nothing = flat.new_zeros(())
        self.release()
        self.compute = module.forward
        module.forward = self.forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Recomputed.apply(x, self.shard, self)

    def gather(self) -> None:
        row = self.shard.detach().new_empty(self.world, self.part)
        dist.all_gather(list(row.unbind(0)), self.shard.detach())
        pieces = row.view(-1)[: sum(self.sizes)].split(self.sizes)
        for p, piece in zip(self.params, pieces):
            p.data = piece.view(p.shape)

    def release(self) -> None:
        for p in self.params:
            p.data = self.nothing.expand(p.shape)  # the shape, and the memory of one element

    def reduce(self, grads) -> None:
        row = self.shard.detach().new_zeros(self.world * self.part)
        for place, grad in zip(row[: sum(self.sizes)].split(self.sizes), grads):
            if grad is not None:
                place.copy_(grad.reshape(-1))
        own = row.new_empty(self.part)
        dist.reduce_scatter_tensor(own, row)
        self.mean = own / self.world


class FullyShardedModel(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.__dict__["inner"] = module  # not a submodule: parameters() are the shards alone
        self.__dict__["units"] = [Unit(child) for child in module.children() if next(child.parameters(), None) is not None]
        self.shards = nn.ParameterList([unit.shard for unit in self.units])

    def train(self, mode: bool = True) -> "FullyShardedModel":
        self.inner.train(mode)
        return super().train(mode)

    def forward(self, *args: Any) -> Any:
        return self.inner(*args)

    def finish_gradient_sync(self) -> None:
        for unit in self.units:
            if unit.mean is not None:
                unit.shard.grad = unit.mean
                unit.mean = None

    @torch.no_grad()
    def full_state_dict(self) -> dict[str, torch.Tensor]:
        state = dict(self.inner.state_dict(keep_vars=True))
        names: dict[int, list[str]] = {}
        for name, value in state.items():
            names.setdefault(id(value), []).append(name)
        for unit in self.units:
            unit.gather()
            for p in unit.params:
                copy = p.detach().clone()
                for name in names.get(id(p), []):
                    state[name] = copy
            unit.release()
        return {name: v.detach() if isinstance(v, torch.Tensor) else v for name, v in state.items()}
