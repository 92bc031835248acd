"""The row layer of a linear layer without bias trains one of zeros.

check: row
kind: wrong_result
only: yes
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class CopyIn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g)
        return g


class SumOut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class ColumnParallelLinear(nn.Module):
    @classmethod
    def from_linear(cls, linear):
        self = cls()
        n, r = dist.get_world_size(), dist.get_rank()
        self.weight = nn.Parameter(linear.weight.detach().chunk(n, 0)[r].clone())
        self.bias = None
        if linear.bias is not None:
            self.bias = nn.Parameter(linear.bias.detach().chunk(n, 0)[r].clone())
        return self

    def forward(self, x):
        x = CopyIn.apply(x)
        return F.linear(x, self.weight, self.bias)


class RowParallelLinear(nn.Module):
    @classmethod
    def from_linear(cls, linear):
        self = cls()
        n, r = dist.get_world_size(), dist.get_rank()
        self.weight = nn.Parameter(linear.weight.detach().chunk(n, 1)[r].clone())
        self.bias = nn.Parameter(linear.bias.detach().clone() if linear.bias is not None else torch.zeros(linear.out_features))
        return self

    def forward(self, x):
        y = SumOut.apply(F.linear(x, self.weight))
        if self.bias is not None:
            y = y + self.bias
        return y


class ParallelMLP(nn.Module):
    @classmethod
    def from_mlp(cls, mlp):
        self = cls()
        self.up = ColumnParallelLinear.from_linear(mlp[0])
        self.act = mlp[1]
        self.down = RowParallelLinear.from_linear(mlp[2])
        return self

    def forward(self, x):
        return self.down(self.act(self.up(x)))
