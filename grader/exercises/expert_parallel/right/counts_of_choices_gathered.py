"""One-hot counts (k, T, E), plan() decides drops at the sender, outputs copied into a (T, k, d) table."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, gives, takes):
        ctx.gives, ctx.takes = gives, takes
        out = rows.new_empty((sum(takes), *rows.shape[1:]))
        dist.all_to_all_single(out, rows.contiguous(), takes, gives)
        return out

    @staticmethod
    def backward(ctx, grad):
        out = grad.new_empty((sum(ctx.gives), *grad.shape[1:]))
        dist.all_to_all_single(out, grad.contiguous(), ctx.gives, ctx.takes)
        return out, None, None


class ExpertParallel(nn.Module):
    def __init__(self, router, experts, k, capacity):
        super().__init__()
        self.router = router
        self.experts = nn.ModuleList(experts)
        self.k, self.capacity = k, capacity

    @torch.no_grad()
    def plan(self, chosen):
        """Of chosen (T, k): which pairs stay, and how many rows each rank sends to each expert (N, E)."""
        n, rank = dist.get_world_size(), dist.get_rank()
        hot = F.one_hot(chosen.T, self.router.out_features)  # (k, T, E)
        counts = hot.sum(1).contiguous()  # (k, E)
        everybody = [torch.empty_like(counts) for _ in range(n)]
        dist.all_gather(everybody, counts)
        every = torch.stack(everybody, 1)  # (k, N, E)
        if self.capacity is None:
            return torch.ones_like(chosen, dtype=torch.bool), every.sum(0)
        flat = every.flatten(0, 1)
        before = (flat.cumsum(0) - flat).view_as(every)  # in the order (choice, rank)
        place = before[:, rank].unsqueeze(1) + hot.cumsum(1) - hot  # (k, T, E)
        mine = place.gather(2, chosen.T.unsqueeze(2)).squeeze(2).T  # (T, k)
        left = (self.capacity - before).clamp(min=0)
        return mine < self.capacity, torch.minimum(every, left).sum(0)

    def forward(self, x):
        n, rank, here = dist.get_world_size(), dist.get_rank(), len(self.experts)
        tokens, width = x.shape
        values, chosen = self.router(x).topk(self.k, dim=1)
        weights = values.softmax(1)
        stays, sizes = self.plan(chosen)
        own = slice(rank * here, (rank + 1) * here)

        pairs = stays.flatten().nonzero().squeeze(1)  # number of the pair: token * k + choice
        pairs = pairs[chosen.flatten()[pairs].argsort(stable=True)]
        gives = sizes[rank].view(n, here).sum(1).tolist()
        takes = sizes[:, own].sum(1).tolist()
        rows = Exchange.apply(x.index_select(0, pairs // self.k), gives, takes)

        labels = torch.arange(here).repeat(n).repeat_interleave(sizes[:, own].flatten())
        order = labels.argsort(stable=True)
        parts = rows.index_select(0, order).split(sizes[:, own].sum(0).tolist())
        done = torch.cat([expert(part) for expert, part in zip(self.experts, parts)])
        back = Exchange.apply(done.index_select(0, order.argsort()), takes, gives)

        outputs = back.new_zeros(tokens * self.k, width).index_copy(0, pairs, back)
        return (outputs.view(tokens, self.k, width) * weights.unsqueeze(2)).sum(1)

    @torch.no_grad()
    def finish_gradient_sync(self):
        for p in self.router.parameters():
            total = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
            dist.all_reduce(total)
            p.grad = total
