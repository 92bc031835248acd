"""Linear layers as autograd functions. The input's gradient travels while the weight's gradient is computed."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def _rows(x):
    """[..., n] -> [rows, n]"""
    return x.reshape(-1, x.shape[-1])


class ColumnLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_x = grad_weight = grad_bias = request = None
        if ctx.needs_input_grad[0]:
            grad_x = (grad @ weight).contiguous()
            request = dist.all_reduce(grad_x, async_op=True)
        if ctx.needs_input_grad[1]:
            grad_weight = _rows(grad).t() @ _rows(x)
        if ctx.needs_input_grad[2]:
            grad_bias = _rows(grad).sum(0)
        if request is not None:
            request.wait()
        return grad_x, grad_weight, grad_bias


class RowLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        y = F.linear(x, weight).contiguous()
        dist.all_reduce(y)
        return y if bias is None else y.add_(bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_x = grad @ weight if ctx.needs_input_grad[0] else None
        grad_weight = _rows(grad).t() @ _rows(x) if ctx.needs_input_grad[1] else None
        grad_bias = _rows(grad).sum(0) if ctx.needs_input_grad[2] else None
        return grad_x, grad_weight, grad_bias


def _parameter(tensor, like):
    return nn.Parameter(tensor.detach().clone(memory_format=torch.contiguous_format), like.requires_grad)


class ColumnParallelLinear(nn.Module):
    def __init__(self, weight, bias=None):
        super().__init__()
        self.weight, self.bias = weight, bias

    @classmethod
    def from_linear(cls, linear):
        mine = dist.get_rank()
        parts = linear.weight.tensor_split(dist.get_world_size(), dim=0)
        weight = _parameter(parts[mine], linear.weight)
        if linear.bias is None:
            return cls(weight)
        return cls(weight, _parameter(linear.bias.tensor_split(len(parts))[mine], linear.bias))

    def forward(self, x):
        return ColumnLinear.apply(x, self.weight, self.bias)


class RowParallelLinear(nn.Module):
    def __init__(self, weight, bias=None):
        super().__init__()
        self.weight, self.bias = weight, bias

    @classmethod
    def from_linear(cls, linear):
        part = linear.weight.tensor_split(dist.get_world_size(), dim=1)[dist.get_rank()]
        bias = None if linear.bias is None else _parameter(linear.bias, linear.bias)
        return cls(_parameter(part, linear.weight), bias)

    def forward(self, x):
        return RowLinear.apply(x, self.weight, self.bias)


class ParallelMLP(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    @classmethod
    def from_mlp(cls, mlp):
        return cls([ColumnParallelLinear.from_linear(mlp[0]), mlp[1], RowParallelLinear.from_linear(mlp[2])])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
