"""FSDP's four hooks on layers of one weight: what is gathered and freed when, in as few lines as show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


class Sharded:
    """A linear layer without bias, whose weight is whole only while the layer computes; N divides its rows.

    `note` is called with the name of each hook that has run.
    """

    def __init__(self, layer: torch.nn.Linear, note: Callable[[str], object] = lambda hook: None) -> None:
        self.weight, self.note = layer.weight, note
        self.mine = layer.weight.detach().chunk(dist.get_world_size())[dist.get_rank()].clone()  # all that is kept
        self.memory = layer.weight.untyped_storage()
        self.size = self.memory.nbytes()
        self.memory.resize_(0)
        layer.register_forward_pre_hook(self.before_forward)
        layer.register_forward_hook(self.after_forward)
        layer.register_full_backward_pre_hook(self.before_backward)
        layer.weight.register_post_accumulate_grad_hook(self.after_backward)

    def gather(self) -> None:
        self.memory.resize_(self.size)  # the same storage, so what autograd has saved reads the right values again
        dist.all_gather_into_tensor(self.weight.data, self.mine)

    def before_forward(self, *_: Any) -> None:
        self.gather()
        self.note("before forward: gather")

    def after_forward(self, *_: Any) -> None:
        self.memory.resize_(0)
        self.note("after forward: free")

    def before_backward(self, *_: Any) -> None:
        self.gather()
        self.note("before backward: gather")

    def after_backward(self, weight: torch.nn.Parameter) -> None:
        assert weight.grad is not None
        self.memory.resize_(0)
        self.gradient = torch.empty_like(self.mine)
        dist.reduce_scatter_tensor(self.gradient, weight.grad)
        self.gradient /= dist.get_world_size()  # this rank's part of the mean
        weight.grad = None
        self.note("gradient is there: free, reduce-scatter")
