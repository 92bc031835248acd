"""Its all-reduce is a ring of messages, waited for by each step."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def ring_sum(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    flat = tensor.contiguous().clone().reshape(-1)
    chunks = [part.clone() for part in flat.tensor_split(n)]
    for step in range(2 * (n - 1)):
        out, into = (rank - step) % n, (rank - step - 1) % n
        if step >= n - 1:
            out, into = (rank + 1 - (step - n + 1)) % n, (rank - (step - n + 1)) % n
        sending = dist.isend(chunks[out], (rank + 1) % n)
        got = torch.empty_like(chunks[into])
        dist.recv(got, (rank - 1) % n)
        sending.wait()
        chunks[into] = chunks[into] + got if step < n - 1 else got
    return torch.cat(chunks).view(tensor.shape)


class CopyToRanks(torch.autograd.Function):
    """Megatron's f: identity forward, all-reduce backward."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return ring_sum(grad)


class ReduceFromRanks(torch.autograd.Function):
    """Megatron's g: all-reduce forward, identity backward."""

    @staticmethod
    def forward(ctx, x):
        return ring_sum(x)

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
