"""Flat rows whose memory is resized; the next unit is gathered while one computes."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn


class Unit:
    """A child of the module, whose parameters are views of one row; this rank keeps a shard of the row."""

    def __init__(self, module: nn.Module) -> None:
        self.n = dist.get_world_size()
        self.before = self.after = self.gathering = None
        self.forward_over = False
        self.params = list(module.parameters())
        row = self._flat([p.detach() for p in self.params])
        self.shard = nn.Parameter(row.view(self.n, -1)[dist.get_rank()].clone())
        self.row, self.missing = torch.empty_like(row), set(self.params)
        start = 0
        for p in self.params:
            p.data = self.row[start : start + p.numel()].view_as(p)  # from now on filled by gather()
            p.register_post_accumulate_grad_hook(self._arrived)
            start += p.numel()
        self.free()
        module.register_forward_pre_hook(lambda module, args: self.gather())
        module.register_forward_hook(self._forward_is_over)

    def gather(self) -> None:
        """Have the whole parameters, as the shards are now."""
        self.start()
        self.gathering.wait()
        self.gathering = None
        self.next = self.after if not self.forward_over else self.before
        if self.next is not None:
            self.next.start()

    def start(self) -> None:
        """Begin to gather."""
        if self.gathering is None:
            self.row.untyped_storage().resize_(self.row.numel() * self.row.element_size())
            self.gathering = dist.all_gather_into_tensor(self.row, self.shard.detach(), async_op=True)

    def free(self) -> None:
        """Give the memory of the whole parameters back. The storage stays: autograd's views of it are filled again."""
        self.row.untyped_storage().resize_(0)

    def _flat(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """All tensors in one row, padded so that it can be cut into N shards of equal length."""
        row = torch.cat([tensor.reshape(-1) for tensor in tensors])
        return nn.functional.pad(row, (0, -row.numel() % self.n))

    def _forward_is_over(self, module: nn.Module, args: Any, out: torch.Tensor) -> None:
        self.free()
        self.forward_over = out.requires_grad  # no backward pass follows one under torch.no_grad()
        if out.requires_grad:
            out.register_hook(lambda grad: self.gather())  # called when the backward pass arrives here

    def _arrived(self, p: nn.Parameter) -> None:
        """A gradient is there. With the last one nobody needs the parameters any more: autograd has used them."""
        self.missing.remove(p)
        if not self.missing:
            self.free()
            self._reduce_scatter()
            self.missing = set(self.params)
            self.forward_over = False

    def _reduce_scatter(self) -> None:
        row = self._flat([p.grad for p in self.params])
        for p in self.params:
            p.grad = None
        self.reduced = torch.empty_like(self.shard, requires_grad=False)
        self.work = dist.reduce_scatter_tensor(self.reduced, row, async_op=True)  # while the backward pass goes on

    def finish(self) -> None:
        """The mean gradient is there, at the shard."""
        self.work.wait()
        self.shard.grad = self.reduced / self.n
        self.work = self.reduced = None


class FullyShardedModel(nn.Module):
    """`module`, trained data parallel, with its parameters, gradients and optimizer state sharded over the ranks."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.units = [Unit(child) for child in module.children() if list(child.parameters())]
        for first, second in zip(self.units, self.units[1:]):
            first.after, second.before = second, first
        self.shards = nn.ParameterList([unit.shard for unit in self.units])
        self.inside = [module]  # in a list: its parameters are not this module's

    def forward(self, *args: Any) -> Any:
        return self.inside[0](*args)

    def finish_gradient_sync(self) -> None:
        """After the backward pass; then every shard's .grad is its part of the mean gradient."""
        for unit in self.units:
            unit.finish()

    def full_state_dict(self) -> dict[str, torch.Tensor]:
        """The state_dict() of the module as it was before it was sharded, on every rank."""
        for unit in self.units:
            unit.gather()
        state = {name: value.clone() for name, value in self.inside[0].state_dict().items()}
        for unit in self.units:
            unit.free()
        return state
