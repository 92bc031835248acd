"""Saved-tensor hooks: autograd keeps where in the row a tensor lay, and gathers a new row when it wants it back."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


@dataclass(frozen=True)
class Place:
    size: torch.Size
    stride: tuple[int, ...]
    offset: int


class Unit:
    def __init__(self, module: nn.Module) -> None:
        self.world = dist.get_world_size()
        self.params = list(module.parameters())
        self.spans = []
        end = 0
        for p in self.params:
            self.spans.append((end, end + p.numel()))
            end += p.numel()
        self.part = (end + self.world - 1) // self.world
        row = torch.zeros(self.part * self.world, dtype=self.params[0].dtype, device=self.params[0].device)
        for p, (a, b) in zip(self.params, self.spans):
            row[a:b] = p.detach().reshape(-1)
        self.shard = nn.Parameter(row.view(self.world, self.part)[dist.get_rank()].clone())
        self.nothing = row.new_zeros(())
        self.row: torch.Tensor | None = None
        self.waiting = set(range(len(self.params)))
        self.sent = None
        self.hollow()
        self.inner = module.forward
        module.forward = self.forward
        for number, p in enumerate(self.params):
            p.register_post_accumulate_grad_hook(lambda _, number=number: self.arrived(number))

    def hollow(self) -> None:
        for p in self.params:
            p.data = self.nothing.expand(p.shape)

    def whole(self) -> torch.Tensor:
        if self.row is None:
            row = self.shard.detach().new_empty(self.part * self.world)
            dist.all_gather_into_tensor(row, self.shard.detach())
            self.row = row
        return self.row

    def fill(self) -> None:
        row = self.whole()
        for p, (a, b) in zip(self.params, self.spans):
            p.data = row[a:b].view(p.shape)

    def free(self) -> None:
        self.row = None
        self.hollow()

    def forward(self, *args: Any) -> Any:
        self.fill()
        with saved_tensors_hooks(self.pack, self.unpack):
            out = self.inner(*args)
        self.free()
        return out

    def pack(self, tensor: torch.Tensor) -> Any:
        if tensor.untyped_storage().data_ptr() == self.row.untyped_storage().data_ptr():
            return Place(tensor.size(), tensor.stride(), tensor.storage_offset())
        return tensor.detach()

    def unpack(self, packed: Any) -> torch.Tensor:
        if isinstance(packed, Place):
            return self.whole().as_strided(packed.size, packed.stride, packed.offset)
        return packed

    def arrived(self, number: int) -> None:
        self.waiting.discard(number)
        if not self.waiting:
            self.reduce()

    @torch.no_grad()
    def reduce(self) -> None:
        self.row = None
        self.waiting = set(range(len(self.params)))
        grads = self.nothing.new_zeros(self.part * self.world)
        for p, (a, b) in zip(self.params, self.spans):
            grads[a:b] = p.grad.reshape(-1)
            p.grad = None
        own = grads.new_empty(self.part)
        handle = dist.reduce_scatter_tensor(own, grads, async_op=True)
        self.sent = handle, own, grads

    def finish(self) -> None:
        self.row = None
        if self.sent is not None:
            handle, own, _ = self.sent
            handle.wait()
            self.shard.grad = own / self.world
            self.sent = None


class FullyShardedModel(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.units = [Unit(child) for child in module.children() if any(True for _ in child.parameters())]

    def parameters(self, recurse: bool = True):
        return iter([unit.shard for unit in self.units])

    def named_parameters(self, *args: Any, **kwargs: Any):
        return iter([(f"unit_{number}", unit.shard) for number, unit in enumerate(self.units)])

    def forward(self, *args: Any) -> Any:
        return self.module(*args)

    def finish_gradient_sync(self) -> None:
        for unit in self.units:
            unit.finish()

    def full_state_dict(self) -> dict[str, torch.Tensor]:
        copies = {}
        for unit in self.units:
            row = unit.whole()
            for p, (a, b) in zip(unit.params, unit.spans):
                copies[p] = row[a:b].clone().view(p.shape)
            del row
            unit.free()
        state = dict(self.module.state_dict(keep_vars=True))
        for name, value in state.items():
            if isinstance(value, nn.Parameter):
                state[name] = copies[value]
            elif isinstance(value, torch.Tensor):
                state[name] = value.detach().clone()
        return state
