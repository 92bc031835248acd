"""No autograd function: a gradient hook on a view of the input, and an all-reduce of the output that autograd does not see."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def _sum_over_ranks(grad):
    total = grad.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


class _Part(nn.Module):
    """Holds this rank's rows (dim 0) or columns (dim 1) of a linear layer's weight."""

    dim: int

    @classmethod
    def from_linear(cls, linear):
        part = cls()
        size, rank = dist.get_world_size(), dist.get_rank()
        share = linear.weight.shape[cls.dim] // size
        weight = linear.weight.detach().narrow(cls.dim, rank * share, share)
        part.weight = nn.Parameter(torch.empty_like(weight, memory_format=torch.contiguous_format).copy_(weight))
        part.weight.requires_grad_(linear.weight.requires_grad)
        if linear.bias is None:
            part.register_parameter("bias", None)
        else:
            bias = linear.bias.detach()
            bias = bias.narrow(0, rank * share, share) if cls.dim == 0 else bias
            part.bias = nn.Parameter(bias.clone())
            part.bias.requires_grad_(linear.bias.requires_grad)
        return part


class ColumnParallelLinear(_Part):
    dim = 0

    def forward(self, x):
        if x.requires_grad and torch.is_grad_enabled():
            x = x.view_as(x)  # a tensor of our own: the hook must not see what others do with x
            x.register_hook(_sum_over_ranks)
        return F.linear(x, self.weight, self.bias)


class RowParallelLinear(_Part):
    dim = 1

    def forward(self, x):
        y = F.linear(x, self.weight).contiguous()
        # d(sum)/d(own part) is 1, so that the graph of the own part is the graph of the sum;
        # the product keeps its factors for the backward pass, and not its result
        dist.all_reduce(y.detach())
        return y if self.bias is None else y + self.bias


class ParallelMLP(nn.Module):
    @classmethod
    def from_mlp(cls, mlp):
        block = cls()
        block.up = ColumnParallelLinear.from_linear(mlp[0])
        block.between = mlp[1]
        block.down = RowParallelLinear.from_linear(mlp[2])
        return block

    def forward(self, x):
        h = self.up(x)
        h = self.between(h)
        return self.down(h)
