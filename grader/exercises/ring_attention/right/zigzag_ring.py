"""K and V stacked in one message, chunks r and 2N-1-r, the owner's gradient arrives home after N hops."""

import math

import torch
import torch.distributed as dist


def order_of(seq, n):
    """Position in the whole sequence of each row of the shards, shard after shard."""
    chunks = torch.arange(seq).view(2 * n, -1)
    return torch.cat([torch.cat([chunks[r], chunks[2 * n - 1 - r]]) for r in range(n)])


def split(x, n):
    return list(x.index_select(2, order_of(x.shape[2], n).to(x.device)).chunk(n, dim=2))


def merge(shards):
    n, length = len(shards), shards[0].shape[2]
    whole = torch.empty_like(torch.cat(shards, 2))
    whole.index_copy_(2, order_of(n * length, n).to(whole.device), torch.cat(shards, 2))
    return whole


def hidden(mine, other, n, length, causal):
    """True where a query of rank `mine` must not see a key of rank `other`."""
    if not causal:
        return None
    positions = order_of(n * length, n).view(n, length)
    return positions[mine][:, None] < positions[other][None, :]


def logits_of(q, kv, mask, scale):
    s = (q @ kv[0].transpose(-1, -2)) * scale
    return s if mask is None else s.masked_fill(mask, -math.inf)


def absorb(state, q, kv, mask, scale):
    m, l, o = state
    s = logits_of(q, kv, mask, scale)
    top = s.amax(-1, keepdim=True)
    new = top if m is None else torch.maximum(m, top)
    p = torch.exp(s - new)
    if m is None:
        return new, p.sum(-1, keepdim=True), p @ kv[1]
    shrink = torch.exp(m - new)
    return new, l * shrink + p.sum(-1, keepdim=True), o * shrink + p @ kv[1]


class Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal):
        rank, n = dist.get_rank(), dist.get_world_size()
        after, before = (rank + 1) % n, (rank - 1) % n
        scale = 1 / math.sqrt(q.shape[-1])
        kv = torch.stack([k, v])
        state = (None, None, None)
        for hop in range(n):
            jobs, more = [], None
            if hop < n - 1:
                more = torch.empty_like(kv)
                jobs = [dist.isend(kv, after), dist.irecv(more, before)]
            mask = hidden(rank, (rank - hop) % n, n, q.shape[2], causal)
            state = absorb(state, q, kv, mask, scale)
            for job in jobs:
                job.wait()
            jobs, kv, more = [], more, None
        m, l, o = state
        out = o / l
        ctx.save_for_backward(q, k, v, out, m + torch.log(l))
        ctx.causal = causal
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        rank, n = dist.get_rank(), dist.get_world_size()
        after, before = (rank + 1) % n, (rank - 1) % n
        scale = 1 / math.sqrt(q.shape[-1])
        delta = (grad * out).sum(-1, keepdim=True)
        dq = torch.zeros_like(q)
        kv = torch.stack([k, v])
        sent = came = None  # the gradients' jobs of the hop before, and what comes with them
        for hop in range(n):
            jobs, more = [], None
            if hop < n - 1:
                more = torch.empty_like(kv)
                jobs = [dist.isend(kv, after), dist.irecv(more, before)]
            mask = hidden(rank, (rank - hop) % n, n, q.shape[2], ctx.causal)
            p = torch.exp(logits_of(q, kv, mask, scale) - lse)
            ds = p * (grad @ kv[1].transpose(-1, -2) - delta) * scale
            dq += ds @ kv[0]
            part = torch.stack([ds.transpose(-1, -2) @ q, p.transpose(-1, -2) @ grad])
            if sent:
                for job in sent:
                    job.wait()
                part += came
                came = None
            if n > 1:
                came = torch.empty_like(part)
                sent = [dist.isend(part, after), dist.irecv(came, before)]
            for job in jobs:
                job.wait()
            jobs, kv, more = [], more, None
        if sent:
            for job in sent:
                job.wait()
            part = came
        return dq, part[0], part[1], None


def ring_attention(q, k, v, causal):
    return Ring.apply(q, k, v, causal)
