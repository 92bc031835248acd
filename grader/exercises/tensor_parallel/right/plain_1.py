import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class CopyToRanks(torch.autograd.Function):
    """Megatron's f: identity forward, all-reduce backward."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad


class ReduceFromRanks(torch.autograd.Function):
    """Megatron's g: all-reduce forward, identity backward."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous().clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


def mine(tensor, dim):
    """This rank's slice along `dim`, as a parameter of its own."""
    return nn.Parameter(tensor.detach().chunk(dist.get_world_size(), dim)[dist.get_rank()].clone())


class ColumnParallelLinear(nn.Module):
    """A linear layer of which each rank has out/N output features."""

    @classmethod
    def from_linear(cls, linear):
        layer = cls()
        layer.weight = mine(linear.weight, 0)
        layer.bias = None if linear.bias is None else mine(linear.bias, 0)
        return layer

    def forward(self, x):
        return F.linear(CopyToRanks.apply(x), self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """A linear layer of which each rank has in/N input features; the bias is whole, and added once."""

    @classmethod
    def from_linear(cls, linear):
        layer = cls()
        layer.weight = mine(linear.weight, 1)
        layer.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())
        return layer

    def forward(self, x):
        y = ReduceFromRanks.apply(F.linear(x, self.weight))
        return y if self.bias is None else y + self.bias


class ParallelMLP(nn.Module):
    """Linear, activation, linear: split by columns, then by rows, so that nothing is gathered between them."""

    @classmethod
    def from_mlp(cls, mlp):
        block = cls()
        first, block.activation, second = mlp
        block.first = ColumnParallelLinear.from_linear(first)
        block.second = RowParallelLinear.from_linear(second)
        return block

    def forward(self, x):
        return self.second(self.activation(self.first(x)))
