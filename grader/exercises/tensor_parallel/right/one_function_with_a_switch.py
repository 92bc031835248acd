"""Subclasses of nn.Linear and nn.Sequential, made on the meta device. One autograd function has a switch for each direction."""

import torch
import torch.distributed as dist
from torch import nn


class AllReduce(torch.autograd.Function):
    """Sums over ranks in the forward pass, in the backward pass, or hands on what it gets."""

    @staticmethod
    def forward(ctx, x, forward, backward):
        ctx.sum = backward
        return AllReduce.total(x) if forward else x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return AllReduce.total(grad) if ctx.sum else grad, None, None

    @staticmethod
    def total(x):
        result = torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x)
        dist.all_reduce(result, op=dist.ReduceOp.SUM)
        return result


def _own(values, original):
    parameter = nn.Parameter(torch.empty(values.shape, dtype=values.dtype, device=values.device))
    with torch.no_grad():
        parameter.copy_(values)
    return parameter.requires_grad_(original.requires_grad)


class ColumnParallelLinear(nn.Linear):
    @classmethod
    def from_linear(cls, linear):
        n, rank = dist.get_world_size(), dist.get_rank()
        out = linear.out_features // n
        mine = slice(rank * out, (rank + 1) * out)
        part = cls(linear.in_features, out, bias=linear.bias is not None, device="meta")
        part.weight = _own(linear.weight.detach()[mine], linear.weight)
        if linear.bias is not None:
            part.bias = _own(linear.bias.detach()[mine], linear.bias)
        return part

    def forward(self, x):
        return super().forward(AllReduce.apply(x, False, True))


class RowParallelLinear(nn.Linear):
    @classmethod
    def from_linear(cls, linear):
        n, rank = dist.get_world_size(), dist.get_rank()
        width = linear.in_features // n
        part = cls(width, linear.out_features, bias=linear.bias is not None, device="meta")
        part.weight = _own(linear.weight.detach()[:, rank * width : (rank + 1) * width], linear.weight)
        if linear.bias is not None:
            part.bias = _own(linear.bias.detach(), linear.bias)
        return part

    def forward(self, x):
        y = AllReduce.apply(x @ self.weight.t(), True, False)
        if self.bias is not None:
            y = y + self.bias
        return y


class ParallelMLP(nn.Sequential):
    @classmethod
    def from_mlp(cls, mlp):
        first, activation, second = mlp
        return cls(ColumnParallelLinear.from_linear(first), activation, RowParallelLinear.from_linear(second))
