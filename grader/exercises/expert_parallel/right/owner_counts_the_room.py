"""Messages only, and the owner drops: it goes through the counts by choice and rank, and takes pairs while there is room."""

import torch
import torch.distributed as dist
from torch import nn


def swap(parts, sizes, like):
    """parts[r] goes to rank r; returns what came from each, sizes[r] rows long."""
    me, ranks = dist.get_rank(), dist.get_world_size()
    got = [like.new_empty((size, *like.shape[1:])) for size in sizes]
    todo = []
    for shift in range(1, ranks):
        to, source = (me + shift) % ranks, (me - shift) % ranks
        if parts[to].numel():
            todo.append(dist.P2POp(dist.isend, parts[to].contiguous(), to))
        if got[source].numel():
            todo.append(dist.P2POp(dist.irecv, got[source], source))
    for request in dist.batch_isend_irecv(todo) if todo else []:
        request.wait()
    got[me].copy_(parts[me])
    return got


class Travel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, there, here):
        ctx.there, ctx.here = there, here
        return torch.cat(swap(rows.split(there), here, rows))

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        return torch.cat(swap(grad.split(ctx.here), ctx.there, grad)), None, None


class ExpertParallel(nn.Module):
    def __init__(self, router, experts, k, capacity):
        super().__init__()
        self.router, self.experts = router, nn.ModuleList(experts)
        self.k, self.capacity = k, capacity
        self.ranks, self.me = dist.get_world_size(), dist.get_rank()

    def kept(self, counts):
        """How many of each rank's and choice's pairs of each of my experts are taken: [rank, choice, expert]."""
        taken = torch.zeros_like(counts)
        for expert in range(counts.shape[2]):
            room = self.capacity
            for choice in range(self.k):
                for rank in range(self.ranks):
                    taken[rank, choice, expert] = min(int(counts[rank, choice, expert]), room)
                    room -= int(taken[rank, choice, expert])
        return taken

    def forward(self, x):
        mine, tokens = len(self.experts), x.shape[0]
        logits, chosen = self.router(x).topk(self.k, dim=1)
        weights = logits.softmax(1)
        # by rank, choice, expert and position: the order in which the rows travel
        expert = chosen.t().reshape(-1)
        choice = torch.arange(self.k).repeat_interleave(tokens)
        token = torch.arange(tokens).repeat(self.k)
        group = ((expert // mine) * self.k + choice) * mine + expert % mine
        order = group.argsort(stable=True)
        counts = group.bincount(minlength=self.ranks * self.k * mine).view(self.ranks, self.k, mine)
        theirs = torch.stack([c.view(self.k, mine) for c in swap(
            list(counts.reshape(self.ranks, -1, 1)), [self.k * mine] * self.ranks, counts.new_empty(1, 1))])
        there, here = counts.sum((1, 2)).tolist(), theirs.sum((1, 2)).tolist()
        rows = Travel.apply(x[token[order]], there, here)
        # here: rank, choice, expert, position
        groups = torch.arange(theirs.numel()).repeat_interleave(theirs.reshape(-1))
        starts = theirs.reshape(-1).cumsum(0) - theirs.reshape(-1)
        place = torch.arange(len(rows)) - starts[groups]
        taken = theirs if self.capacity is None else self.kept(theirs)
        alive = place < taken.reshape(-1)[groups]
        out = rows * 0
        for number, module in enumerate(self.experts):
            those = (alive & (groups % mine == number)).nonzero().flatten()
            out = out.index_copy(0, those, module(rows[those]))
        back = Travel.apply(out, here, there)
        return torch.zeros_like(x).index_add(0, token[order], back * weights.t().reshape(-1)[order, None])

    def finish_gradient_sync(self):
        for p in self.router.parameters():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad)
