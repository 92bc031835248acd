"""Positions are dealt out one by one and back again, the sums are float64, and a courier carries pairs around the ring."""

import torch
import torch.distributed as dist


def order(seq, n):
    """Positions of each rank: 0 1 2 .. n-1 n-1 .. 1 0 0 1 ..., like cards."""
    deal = [r for r in range(n)] + [r for r in reversed(range(n))]
    whose = [deal[i % (2 * n)] for i in range(seq)]
    return [torch.tensor([i for i in range(seq) if whose[i] == r]) for r in range(n)]


def split(x, n):
    return [x.index_select(2, where) for where in order(x.shape[2], n)]


def merge(shards):
    n = len(shards)
    seq = sum(s.shape[2] for s in shards)
    out = torch.empty((*shards[0].shape[:2], seq, shards[0].shape[3]), dtype=shards[0].dtype)
    for where, s in zip(order(seq, n), shards):
        out[:, :, where] = s
    return out


class Courier:
    """Sends a pair of tensors on around the ring and receives another while the rank computes."""

    def __init__(self):
        self.n, self.me = dist.get_world_size(), dist.get_rank()

    def start(self, a, b):
        self.out = torch.cat((a.reshape(-1), b.reshape(-1)))
        self.inn = torch.empty_like(self.out)
        self.shape = a.shape
        self.r = [dist.irecv(self.inn, (self.me - 1) % self.n), dist.isend(self.out, (self.me + 1) % self.n)]

    def finish(self):
        [r.wait() for r in self.r]
        a, b = self.inn.chunk(2)
        self.r = self.out = self.inn = None
        return a.view(self.shape), b.view(self.shape)


def scores(q, k, allowed):
    s = (q @ k.transpose(2, 3)) * (q.shape[3] ** -0.5)
    return s if allowed is None else s.where(allowed, torch.tensor(-1e30))


class RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal):
        n, me = dist.get_world_size(), dist.get_rank()
        where = order(n * q.shape[2], n)
        see = [where[me][:, None] >= where[r] if causal else None for r in range(n)]
        post, a, b = Courier(), k.contiguous(), v.contiguous()
        best = torch.full(q.shape[:3], -1e30)
        weight = torch.zeros(q.shape[:3], dtype=torch.float64)
        value = torch.zeros(q.shape, dtype=torch.float64)
        for hop in range(n):
            if hop + 1 < n:
                post.start(a, b)
            s = scores(q, a, see[(me - hop) % n])
            now = torch.maximum(best, s.max(-1).values)
            p = torch.exp(s - now[..., None])
            if see[(me - hop) % n] is not None:
                p = p * see[(me - hop) % n]
            shrink = torch.exp(best - now).double()
            weight = weight * shrink + p.sum(-1, dtype=torch.float64)
            value = value * shrink[..., None] + (p @ b).double()
            best = now
            if hop + 1 < n:
                a, b = post.finish()
        out = (value / weight[..., None]).float()
        ctx.save_for_backward(q, k, v, out, best, weight.log())
        ctx.see = see
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, best, logw = ctx.saved_tensors
        n, me = dist.get_world_size(), dist.get_rank()
        kv, dkv = Courier(), Courier()
        a, b = k.contiguous(), v.contiguous()
        dq = torch.zeros_like(q)
        mean = (grad * out).sum(-1, keepdim=True)
        gone = False
        for hop in range(n):
            if hop + 1 < n:
                kv.start(a, b)
            see = ctx.see[(me - hop) % n]
            s = scores(q, a, see)
            p = torch.exp((s - best[..., None]).double() - logw[..., None]).float()
            db = p.transpose(2, 3) @ grad
            ds = p * (grad @ b.transpose(2, 3) - mean) * (q.shape[3] ** -0.5)
            dq += ds @ a
            da = ds.transpose(2, 3) @ q
            if gone:
                x, y = dkv.finish()
                da, db = da + x, db + y
                del x, y
            if hop + 1 < n:
                a, b = kv.finish()
            if n > 1:
                dkv.start(da, db)
                gone = True
        if gone:
            da, db = dkv.finish()
        return dq, da, db, None


def ring_attention(q, k, v, causal):
    return RingAttention.apply(q, k, v, causal)
