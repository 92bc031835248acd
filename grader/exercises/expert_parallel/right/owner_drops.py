"""The owner drops: senders send all pairs, and dropped rows come back as zeros. Rows by torch.distributed.nn."""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dnn
from torch import nn


class ExpertParallel(nn.Module):
    def __init__(self, router, experts, k, capacity):
        super().__init__()
        self.gate = router
        self.mine = nn.ModuleList(experts)
        self.k = k
        self.capacity = capacity

    def forward(self, x):
        n, per, (t, d) = dist.get_world_size(), len(self.mine), x.shape
        best, picks = torch.topk(self.gate(x), self.k, dim=1)
        share = torch.softmax(best, dim=1)

        expert = picks.T.flatten()  # (choice, position)
        token = torch.arange(t).repeat(self.k)
        choice = torch.arange(self.k).repeat_interleave(t)
        order = torch.argsort(expert, stable=True)  # by expert, within it by (choice, position)

        table = torch.bincount(expert * self.k + choice, minlength=n * per * self.k).view(n, per * self.k)
        coming = torch.empty_like(table)
        dist.all_to_all_single(coming, table)
        give, take = table.sum(1).tolist(), coming.sum(1).tolist()

        got = dnn.all_to_all_single(x.new_empty(sum(take), d), x[token[order]], take, give)

        label = torch.arange(coming.numel()).repeat_interleave(coming.flatten())
        sender, local, chosen = label // (per * self.k), label // self.k % per, label % self.k
        result = torch.zeros_like(got)
        for number, module in enumerate(self.mine):
            rows = (local == number).nonzero().flatten()
            rows = rows[torch.argsort(chosen[rows] * n + sender[rows], stable=True)]
            rows = rows if self.capacity is None else rows[: self.capacity]
            result = result.index_copy(0, rows, module(got[rows]))

        home = dnn.all_to_all_single(x.new_empty(sum(give), d), result, give, take)
        out = torch.zeros_like(x)
        out.index_add_(0, token[order], home * share.T.flatten()[order].unsqueeze(1))
        return out

    def finish_gradient_sync(self):
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in self.gate.parameters()])
        dist.all_reduce(flat)
        for p, part in zip(self.gate.parameters(), flat.split([p.numel() for p in self.gate.parameters()])):
            p.grad = part.view_as(p).clone()
