"""A shard for each parameter; units run by functional_call, and once more in the backward pass."""

from collections import OrderedDict
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import nn
from torch.func import functional_call


def pieces(tensor, n):
    flat = tensor.detach().reshape(-1)
    size = (flat.numel() + n - 1) // n
    full = flat.new_zeros(size * n)
    full[: flat.numel()].copy_(flat)
    return [full[i * size : (i + 1) * size].clone() for i in range(n)]


class ShardedUnit(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.n = dist.get_world_size()
        me = dist.get_rank()
        self.names, self.shapes = [], []
        self.shard_list = nn.ParameterList()
        for name, p in list(inner.named_parameters()):
            self.names.append(name)
            self.shapes.append(p.shape)
            self.shard_list.append(nn.Parameter(pieces(p, self.n)[me]))
            p.data = p.data.new_empty(0)
        object.__setattr__(self, "inner", inner)

    def whole(self):
        result = OrderedDict()
        for name, shape, shard in zip(self.names, self.shapes, self.shard_list):
            out = [torch.empty_like(shard.data) for _ in range(self.n)]
            dist.all_gather(out, shard.detach())
            result[name] = torch.cat(out)[: shape.numel()].view(shape)
            del out
        return result

    def forward(self, x):
        return Run.apply(x, self, *self.shard_list)


class Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, unit, *shards):
        ctx.unit = unit
        ctx.save_for_backward(x)
        with torch.no_grad():
            return functional_call(unit.inner, unit.whole(), (x,))

    @staticmethod
    def backward(ctx, grad):
        unit = ctx.unit
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_(ctx.needs_input_grad[0])
        weights = {k: v.requires_grad_() for k, v in unit.whole().items()}
        saved = {k: b.clone() for k, b in unit.inner.named_buffers()}
        with torch.enable_grad():
            y = functional_call(unit.inner, weights, (x,))
        wanted = list(weights.values()) + ([x] if x.requires_grad else [])
        grads = list(torch.autograd.grad(y, wanted, grad))
        for k, b in unit.inner.named_buffers():
            b.copy_(saved[k])
        gx = grads.pop() if x.requires_grad else None
        result = []
        for g, shard in zip(grads, unit.shard_list):
            out = torch.empty_like(shard)
            dist.reduce_scatter(out, pieces(g, unit.n))
            result.append(out.div_(unit.n))
        return gx, None, *result


class FullyShardedModel(nn.Module):
    def __init__(self, module):
        super().__init__()
        self._order = list(module.state_dict().keys())
        for name, child in list(module.named_children()):
            if list(child.parameters()):
                setattr(module, name, ShardedUnit(child))
        self.module = module

    def forward(self, x):
        return self.module(x)

    def finish_gradient_sync(self):
        return None

    def full_state_dict(self):
        found = {}
        with torch.no_grad():
            for name, child in self.module.named_children():
                if isinstance(child, ShardedUnit):
                    for k, v in child.whole().items():
                        found[f"{name}.{k}"] = v.clone()
                    for k, v in child.inner.named_buffers():
                        found[f"{name}.{k}"] = v.clone()
                else:
                    for k, v in child.state_dict().items():
                        found[f"{name}.{k}"] = v.clone()
        for k, v in self.module.named_buffers(recurse=False):
            found[k] = v.clone()
        return {k: found[k] for k in self._order if k in found}
