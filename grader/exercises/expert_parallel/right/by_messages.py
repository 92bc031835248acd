"""No collective but the last: counts, rows and outputs are sent as messages, at most N - 1 in each exchange."""

from itertools import accumulate

import torch
import torch.distributed as dist


def swap(parts, shapes, like):
    """Send parts[r] to each rank r, and receive a tensor of shapes[r] from it; what is empty is not sent."""
    me, got, requests = dist.get_rank(), [], []
    for peer, shape in enumerate(shapes):
        got.append(parts[me].clone() if peer == me else like.new_empty(shape))
        if peer != me and got[peer].numel():
            requests.append(dist.irecv(got[peer], peer))
    kept = [part.contiguous() for part in parts]
    for peer, part in enumerate(kept):
        if peer != me and part.numel():
            requests.append(dist.isend(part, peer))
    for request in requests:
        request.wait()
    return got


class Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, out, into):
        ctx.out, ctx.into = out, into
        return torch.cat(swap(list(rows.detach().split(out)), [(size, rows.shape[1]) for size in into], rows))

    @staticmethod
    def backward(ctx, grad):
        sizes = [(size, grad.shape[1]) for size in ctx.out]
        return torch.cat(swap(list(grad.split(ctx.into)), sizes, grad)), None, None


class ExpertParallel(torch.nn.Module):
    def __init__(self, router, experts, k, capacity):
        super().__init__()
        self.router, self.experts, self.k = router, torch.nn.ModuleList(experts), k
        self.capacity = float("inf") if capacity is None else capacity

    def forward(self, x):
        n, me, each = dist.get_world_size(), dist.get_rank(), len(self.experts)
        values, picks = self.router(x).sort(dim=1, descending=True)
        values, picks = values[:, : self.k], picks[:, : self.k]
        scale = torch.exp(values - torch.logsumexp(values, dim=1, keepdim=True))

        counts = torch.zeros(self.k, n * each, dtype=torch.int64)
        for choice in range(self.k):
            counts[choice] = torch.bincount(picks[:, choice], minlength=n * each)
        everyone = swap([counts] * n, [counts.shape] * n, counts)

        used = [0] * (n * each)
        kept = [[0] * (n * each) for _ in range(n)]
        first = [[0] * (n * each) for _ in range(self.k)]  # places before mine, of each choice
        for choice in range(self.k):
            for rank in range(n):
                for e, wanted in enumerate(everyone[rank][choice].tolist()):
                    if rank == me:
                        first[choice][e] = used[e]
                    kept[rank][e] += int(max(0, min(wanted, self.capacity - used[e])))
                    used[e] += wanted

        mine = [[] for _ in range(n * each)]
        for choice in range(self.k):
            for token, e in enumerate(picks[:, choice].tolist()):
                if first[choice][e] < self.capacity:
                    mine[e].append((token, choice))
                first[choice][e] += 1
        pairs = [pair for found in mine for pair in found]
        token = torch.tensor([token for token, _ in pairs], dtype=torch.int64)
        choice = torch.tensor([choice for _, choice in pairs], dtype=torch.int64)

        out = [sum(kept[me][rank * each : (rank + 1) * each]) for rank in range(n)]
        sizes = [kept[rank][me * each : (me + 1) * each] for rank in range(n)]
        into = [sum(row) for row in sizes]
        got = Rows.apply(x[token], out, into)

        flat = [size for row in sizes for size in row]
        pieces = got.split(flat)  # of each sender and expert
        done = [None] * len(pieces)
        for e, expert in enumerate(self.experts):
            ours = range(e, len(pieces), each)
            whole = expert(torch.cat([pieces[at] for at in ours]))
            ends = list(accumulate(flat[at] for at in ours))
            for at, end in zip(ours, ends):
                done[at] = whole[end - flat[at] : end]
        back = Rows.apply(torch.cat(done), into, out)

        y = torch.zeros(x.shape)
        return y.index_put((token,), scale[token, choice].unsqueeze(1) * back, accumulate=True)

    def finish_gradient_sync(self):
        for p in self.router.parameters():
            total = torch.zeros_like(p) if p.grad is None else p.grad.clone()
            dist.all_reduce(total)
            p.grad = total
