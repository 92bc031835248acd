"""The all-to-all of torch.distributed.nn, which autograd sees; index arithmetic in place of loops over ranks."""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dnn
from torch import nn
import torch.nn.functional as F


class ExpertParallel(nn.Module):
    def __init__(self, router, experts, k, capacity):
        super().__init__()
        self.router = router
        self.experts = nn.ModuleList(experts)
        self.k = k
        self.capacity = capacity
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()

    def _a2a(self, rows, out_sizes, in_sizes):
        out = rows.new_empty(sum(out_sizes), rows.shape[1])
        return dnn.all_to_all_single(out, rows, out_sizes, in_sizes)

    def forward(self, x):
        E, L, k = self.router.out_features, len(self.experts), self.k
        T, d = x.shape
        logits = self.router(x)
        vals, sel = logits.topk(k, dim=-1)
        weights = F.softmax(vals, dim=-1)
        expert = sel.t().reshape(-1)              # choice-major
        token = torch.arange(T).repeat(k)
        choice = torch.arange(k).repeat_interleave(T)
        onehot = F.one_hot(sel, E).sum(0)         # (k, E)
        all_counts = torch.empty(self.world * k, E, dtype=torch.long)
        dist.all_gather_into_tensor(all_counts, onehot.contiguous())
        all_counts = all_counts.view(self.world, k, E).transpose(0, 1)  # (k, world, E)
        if self.capacity is None:
            kept = all_counts
        else:
            flat = all_counts.reshape(-1, E)
            before = flat.cumsum(0) - flat
            kept = torch.minimum(flat, (self.capacity - before).clamp(min=0)).view(k, self.world, E)
        mine = kept[:, self.rank]
        perm = expert.argsort(stable=True)
        e_s, c_s = expert[perm], choice[perm]
        # place within (choice, expert)
        oh = F.one_hot(expert, E).view(k, T, E)
        place = ((oh.cumsum(1) - oh) * oh).sum(-1).view(-1)[perm]
        perm = perm[place < mine[c_s, e_s]]
        tok, e_k = token[perm], expert[perm]
        send = torch.bincount(e_k // L, minlength=self.world).tolist()
        per = kept.sum(0)[:, self.rank * L:(self.rank + 1) * L]    # (world, L)
        recv = per.sum(1).tolist()
        rows = self._a2a(x[tok], recv, send)
        local = torch.arange(L).repeat(self.world).repeat_interleave(per.reshape(-1))
        out = torch.zeros_like(rows) + 0 * rows
        for i, ex in enumerate(self.experts):
            at = (local == i).nonzero().squeeze(1)
            if len(at):
                out = out.index_copy(0, at, ex(rows[at]))
        back = self._a2a(out, send, recv)
        w = weights.t().reshape(-1)[perm].unsqueeze(1)
        return torch.zeros_like(x).index_add(0, tok, back * w)

    @torch.no_grad()
    def finish_gradient_sync(self):
        for p in (self.router.weight, self.router.bias):
            g = torch.zeros_like(p) if p.grad is None else p.grad.contiguous()
            dist.all_reduce(g, op=dist.ReduceOp.SUM)
            p.grad = g
