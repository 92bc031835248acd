"""Hooks on the children. A unit has one row for life, whose storage is resized to nothing and back."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn


class Unit:
    """A child: its parameters are views of one row, of which this rank keeps a shard."""

    def __init__(self, module: nn.Module, flying: list) -> None:
        self.world = dist.get_world_size()
        self.module = module
        self.flying = flying  # the units whose gradients are on their way, over all units
        self.params = list(module.parameters())
        self.missing = len(self.params)
        self.mean = None
        self.work = None
        total = sum(p.numel() for p in self.params)
        self.part = -(-total // self.world)
        with torch.no_grad():
            self.row = self.params[0].detach().new_zeros(self.part * self.world)
            self.row[:total] = torch.cat([p.detach().reshape(-1) for p in self.params])
            begin = dist.get_rank() * self.part
            self.shard = nn.Parameter(self.row[begin : begin + self.part].clone())
        for p, view in self.views(self.row):
            p.data = view.view(p.shape)
            p.register_post_accumulate_grad_hook(self.arrived)
        self.free()
        module.register_forward_pre_hook(self.before_forward)
        module.register_forward_hook(self.after_forward)

    def views(self, row: torch.Tensor):
        offset = 0
        for p in self.params:
            yield p, row[offset : offset + p.numel()]
            offset += p.numel()

    def gather(self) -> None:
        storage = self.row.untyped_storage()
        if storage.size() == 0:
            storage.resize_(self.row.numel() * self.row.element_size())
            dist.all_gather_into_tensor(self.row, self.shard.detach())

    def free(self) -> None:
        self.row.untyped_storage().resize_(0)

    def before_forward(self, module: nn.Module, args: Any) -> None:
        self.gather()

    def after_forward(self, module: nn.Module, args: Any, out: torch.Tensor) -> None:
        self.free()
        if out.requires_grad:
            out.register_hook(self.before_backward)

    def before_backward(self, grad: torch.Tensor) -> None:
        self.gather()

    def arrived(self, p: torch.Tensor) -> None:
        self.missing -= 1
        if self.missing == 0:
            self.missing = len(self.params)
            self.free()
            self.reduce()

    @torch.no_grad()
    def reduce(self) -> None:
        grads = self.row.new_zeros(self.part * self.world)
        for p, view in self.views(grads):
            view.copy_(p.grad.reshape(-1))
            p.grad = None
        while self.flying:  # one reduce-scatter on its way, the one of the unit before
            self.flying.pop().settle()
        own = grads.new_empty(self.part)
        self.work = dist.reduce_scatter_tensor(own, grads, async_op=True), own, grads
        self.flying.append(self)

    def settle(self) -> None:
        work, own, _ = self.work
        work.wait()
        self.mean = own.div_(self.world)
        self.work = None


class FullyShardedModel(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.flying: list[Unit] = []
        self.units = [Unit(child, self.flying) for child in module.children() if list(child.parameters())]

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True):
        for number, unit in enumerate(self.units):
            yield f"{prefix}.shard{number}" if prefix else f"shard{number}", unit.shard

    def forward(self, *args: Any) -> Any:
        return self.module(*args)

    def finish_gradient_sync(self) -> None:
        while self.flying:
            self.flying.pop().settle()
        for unit in self.units:
            if unit.mean is not None:
                unit.shard.grad, unit.mean = unit.mean, None

    def full_state_dict(self) -> dict[str, torch.Tensor]:
        whole = {}
        for unit in self.units:
            unit.gather()
            for p in unit.params:
                whole[id(p)] = p.detach().clone()
            unit.free()
        state = {}
        for name, value in self.module.state_dict(keep_vars=True).items():
            if id(value) in whole:
                state[name] = whole[id(value)]
            else:
                state[name] = value.detach().clone() if isinstance(value, torch.Tensor) else value
        return state
