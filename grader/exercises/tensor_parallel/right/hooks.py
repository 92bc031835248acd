"""With tensor hooks in place of autograd functions, and nn.Linear inside."""

import torch
import torch.distributed as dist
import torch.nn as nn


def _cut(linear, dim):
    n, rank = dist.get_world_size(), dist.get_rank()
    step = linear.weight.shape[dim] // n
    weight = linear.weight.data.narrow(dim, rank * step, step)
    bias = linear.bias
    if bias is not None:
        bias = bias.data.narrow(0, rank * step, step) if dim == 0 else bias.data
    return nn.Parameter(weight.clone(memory_format=torch.contiguous_format)), None if bias is None else nn.Parameter(bias.clone())


def _summed(grad):
    grad = grad.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(grad)
    return grad


class _Split(nn.Module):
    dim = 0

    @classmethod
    def from_linear(cls, linear):
        self = cls()
        self.weight, self.bias = _cut(linear, cls.dim)
        return self


class ColumnParallelLinear(_Split):
    def forward(self, x):
        if torch.is_grad_enabled() and x.requires_grad:
            x = x * 1
            x.register_hook(_summed)
        y = x @ self.weight.t()
        return y + self.bias if self.bias is not None else y


class RowParallelLinear(_Split):
    dim = 1

    def forward(self, x):
        y = x @ self.weight.t()
        total = y.detach().clone()
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        y = y + (total - y.detach())
        return y + self.bias if self.bias is not None else y


class ParallelMLP(nn.Module):
    def __init__(self, down, activation, up):
        super().__init__()
        self.up, self.down, self.activation = up, down, activation

    @classmethod
    def from_mlp(cls, mlp):
        return cls(RowParallelLinear.from_linear(mlp[2]), mlp[1], ColumnParallelLinear.from_linear(mlp[0]))

    def forward(self, x):
        return self.down(self.activation(self.up(x)))
