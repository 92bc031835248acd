"""Megatron's f and g as two autograd functions, and plain modules around F.linear."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def _all_reduced(x):
    """The sum over ranks, in a tensor of its own."""
    x = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(x)
    return x


class CopyToRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return _all_reduced(grad)


class ReduceFromRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return _all_reduced(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


def _slice(tensor, dim):
    """This rank's part of a parameter, as a parameter with memory of its own."""
    part = tensor.detach().chunk(dist.get_world_size(), dim)[dist.get_rank()]
    return nn.Parameter(part.clone(memory_format=torch.contiguous_format), requires_grad=tensor.requires_grad)


class ColumnParallelLinear(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = weight
        self.register_parameter("bias", bias)

    @classmethod
    def from_linear(cls, linear):
        return cls(_slice(linear.weight, 0), None if linear.bias is None else _slice(linear.bias, 0))

    def forward(self, x):
        return F.linear(CopyToRanks.apply(x), self.weight, self.bias)


class RowParallelLinear(nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight = weight
        self.register_parameter("bias", bias)

    @classmethod
    def from_linear(cls, linear):
        bias = linear.bias
        if bias is not None:
            bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
        return cls(_slice(linear.weight, 1), bias)

    def forward(self, x):
        y = ReduceFromRanks.apply(F.linear(x, self.weight))
        return y if self.bias is None else y + self.bias


class ParallelMLP(nn.Module):
    def __init__(self, column, activation, row):
        super().__init__()
        self.column = column
        self.activation = activation
        self.row = row

    @classmethod
    def from_mlp(cls, mlp):
        first, activation, second = mlp
        return cls(ColumnParallelLinear.from_linear(first), activation, RowParallelLinear.from_linear(second))

    def forward(self, x):
        return self.row(self.activation(self.column(x)))
