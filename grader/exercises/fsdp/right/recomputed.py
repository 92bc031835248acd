"""Each parameter is cut along its first dimension; checkpointing gathers it again in the backward pass."""

import torch
import torch.distributed as dist
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint


class Whole(torch.autograd.Function):
    """From this rank's rows of a parameter to all of it; backward: the mean of these rows' gradients."""

    @staticmethod
    def forward(ctx, shard, rows):
        n = dist.get_world_size()
        parts = [torch.empty_like(shard) for _ in range(n)]
        dist.all_gather(parts, shard.detach())
        ctx.padded = n * len(shard)
        return torch.cat(parts)[:rows]

    @staticmethod
    def backward(ctx, grad):
        n = dist.get_world_size()
        padded = torch.cat([grad, grad.new_zeros(ctx.padded - len(grad), *grad.shape[1:])])
        mine = torch.empty_like(padded[: ctx.padded // n])
        dist.reduce_scatter(mine, list(padded.chunk(n)))
        return mine / n, None


class Unit(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        n, rank = dist.get_world_size(), dist.get_rank()
        self.shards = torch.nn.ParameterDict()
        self.rows = {}
        for name, p in list(inner.named_parameters()):
            rows = -(-len(p) // n)
            mine = p.detach()[rank * rows : (rank + 1) * rows]
            shard = p.new_zeros(rows, *p.shape[1:])
            shard[: len(mine)] = mine
            self.shards[name.replace(".", "/")] = torch.nn.Parameter(shard)
            self.rows[name] = len(p)
            p.data = torch.empty(0, dtype=p.dtype)
        self.inner = [inner]  # in a list: its parameters are no more

    def whole(self):
        return {name: Whole.apply(self.shards[name.replace(".", "/")], rows) for name, rows in self.rows.items()}

    def run(self, x):
        return functional_call(self.inner[0], self.whole(), (x,))

    def forward(self, x):
        if not self.rows:
            return self.inner[0](x)
        return checkpoint(self.run, x, use_reentrant=False, preserve_rng_state=False)


class FullyShardedModel(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        for name, child in list(module.named_children()):
            setattr(module, name, Unit(child))
        self.module = module

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish_gradient_sync(self):
        """Nothing is left to do: autograd has put the mean into the shards' .grad."""

    @torch.no_grad()
    def full_state_dict(self):
        state = {name: value.detach().clone() for name, value in self.module.state_dict().items() if "." not in name}
        for name, unit in self.module.named_children():
            whole = unit.whole()
            for key, value in unit.inner[0].state_dict().items():
                state[f"{name}.{key}"] = (whole[key] if key in whole else value).detach().clone()
        return state
