"""Rows travel point to point, only where there are some; the sender drops; the whole softmax, renormalised over the k."""
from itertools import accumulate

import torch
import torch.distributed as dist
from torch import nn


def swap(rows, gives, takes):
    n, r = dist.get_world_size(), dist.get_rank()
    rows = rows.contiguous()
    outgoing = rows.split(gives)
    incoming = [rows.new_empty(t, rows.shape[1]) for t in takes]
    incoming[r] = outgoing[r].clone()
    ops = []
    for step in range(1, n):
        to, of = (r + step) % n, (r - step) % n
        if gives[to]:
            ops.append(dist.P2POp(dist.isend, outgoing[to], to))
        if takes[of]:
            ops.append(dist.P2POp(dist.irecv, incoming[of], of))
    if ops:
        for work in dist.batch_isend_irecv(ops):
            work.wait()
    return torch.cat(incoming)


class Swap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, gives, takes):
        ctx.back = takes, gives
        return swap(rows, gives, takes)

    @staticmethod
    def backward(ctx, grad):
        return swap(grad, *ctx.back), None, None


class ExpertParallel(nn.Module):
    def __init__(self, router, experts, k, capacity):
        super().__init__()
        self.router, self.experts = router, nn.ModuleList(experts)
        self.k = k
        self.capacity = float("inf") if capacity is None else capacity

    def forward(self, x):
        n, r = dist.get_world_size(), dist.get_rank()
        own = len(self.experts)
        total = own * n
        probabilities = self.router(x).softmax(-1)
        top, chosen = probabilities.topk(self.k, dim=-1)
        weight = top / top.sum(-1, keepdim=True)
        expert = chosen.t().reshape(-1)
        token = torch.arange(len(x)).repeat(self.k)
        choice = torch.arange(self.k).repeat_interleave(len(x))
        key = choice * total + expert
        counts = torch.bincount(key, minlength=self.k * total)
        everyone = torch.empty(n * counts.numel(), dtype=counts.dtype)
        dist.all_gather_into_tensor(everyone, counts)
        table = everyone.view(n, self.k, total).transpose(0, 1)  # choice, rank, expert
        flat = table.reshape(-1, total)
        before = (flat.cumsum(0) - flat).view_as(table)
        order = torch.argsort(key, stable=True)
        place = torch.empty_like(order)
        start = counts.cumsum(0) - counts
        place[order] = torch.arange(len(order)) - start[key[order]]
        kept = before[choice, r, expert] + place < self.capacity
        taken = torch.minimum((self.capacity - before).clamp(min=0), table).long().sum(0)  # rank, expert
        pairs = torch.nonzero(kept).view(-1)
        pairs = pairs[torch.argsort(expert[pairs], stable=True)]
        gives = taken[r].view(n, own).sum(1).tolist()
        mine = taken[:, r * own : (r + 1) * own]
        takes = mine.sum(1).tolist()
        rows = Swap.apply(x[token[pairs]], gives, takes)
        label = torch.arange(own).repeat(n).repeat_interleave(mine.reshape(-1))
        sort = torch.argsort(label, stable=True)
        sizes = mine.sum(0).tolist()
        outputs = [e(part) for e, part in zip(self.experts, rows[sort].split(sizes))]
        unsorted = torch.cat(outputs)[torch.argsort(sort)]
        back = Swap.apply(unsorted, takes, gives)
        scaled = back * weight.t().reshape(-1)[pairs, None]
        return torch.zeros_like(x).index_add(0, token[pairs], scaled)

    def finish_gradient_sync(self):
        for p in self.router.parameters():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad)
