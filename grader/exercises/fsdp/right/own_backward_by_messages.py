"""One autograd.Function a unit, which runs it once more in the backward pass; shards go round a ring of messages."""

import torch
import torch.distributed as dist


def gathered(shard):
    """All shards in a row; each step of the ring passes one on."""
    n, rank = dist.get_world_size(), dist.get_rank()
    row = shard.new_empty(n, shard.numel())
    row[rank] = shard
    for step in range(n - 1):
        going, coming = (rank - step) % n, (rank - step - 1) % n
        _pass(row[going], row[coming])
    return row.view(-1)


def reduced(row):
    """This rank's part of the mean of all rows."""
    n, rank = dist.get_world_size(), dist.get_rank()
    parts = row.view(n, -1).clone()
    for step in range(n - 1):
        coming = torch.empty_like(parts[0])
        _pass(parts[(rank - step - 1) % n], coming)
        parts[(rank - step - 2) % n] += coming
    return parts[rank] / n


def _pass(going, coming):
    n, rank = dist.get_world_size(), dist.get_rank()
    requests = [dist.isend(going, (rank + 1) % n), dist.irecv(coming, (rank - 1) % n)]
    for request in requests:
        request.wait()


class Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx, unit, shard, x):
        ctx.unit = unit
        ctx.save_for_backward(shard, x)
        return unit.call(unit.whole(shard), x)

    @staticmethod
    def backward(ctx, grad):
        shard, x = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            whole = {name: p.requires_grad_() for name, p in ctx.unit.whole(shard).items()}
            out = ctx.unit.call(whole, x)
        own, *grads = torch.autograd.grad(out, [x, *whole.values()], grad)
        row = torch.cat([g.reshape(-1) for g in grads])
        row = torch.nn.functional.pad(row, (0, -row.numel() % dist.get_world_size()))
        return None, reduced(row), own


class Unit(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        n = dist.get_world_size()
        self.inner = [inner]
        self.shapes = {name: p.shape for name, p in inner.named_parameters()}
        row = torch.cat([p.detach().reshape(-1) for p in inner.parameters()])
        row = torch.nn.functional.pad(row, (0, -row.numel() % n))
        self.shard = torch.nn.Parameter(row.view(n, -1)[dist.get_rank()].clone())
        for p in inner.parameters():
            p.data = p.data.new_empty(0)

    def whole(self, shard):
        row, found = gathered(shard.detach()), {}
        for name, shape in self.shapes.items():
            found[name], row = row[: shape.numel()].view(shape), row[shape.numel() :]
        return found

    def call(self, whole, x):
        return torch.func.functional_call(self.inner[0], whole, (x,))

    def forward(self, x):
        return Run.apply(self, self.shard, x)


class FullyShardedModel(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        for name, child in list(module.named_children()):
            if list(child.parameters()):
                module._modules[name] = Unit(child)

    def forward(self, x):
        return self.module(x)

    def finish_gradient_sync(self):
        pass

    @torch.no_grad()
    def full_state_dict(self):
        units = {name: child for name, child in self.module.named_children() if isinstance(child, Unit)}
        state = {k: v for k, v in self.module.state_dict().items() if k.partition(".")[0] not in units}
        for name, unit in units.items():
            own = unit.inner[0].state_dict() | unit.whole(unit.shard)
            state |= {f"{name}.{key}": value for key, value in own.items()}
        return state
