"""Positions are dealt out like cards, and there is no ring.

In step s a rank's K and V go straight to rank + s, and the gradients of what it got from rank - s go straight back.
"""

import math

import torch
import torch.distributed as dist


def split(x, n):
    return [x[:, :, start::n].contiguous() for start in range(n)]


def merge(shards):
    whole = torch.stack(shards, dim=3)  # (batch, heads, length, n, dim)
    return whole.flatten(2, 3)


def exchange(tensor, to, source):
    buffer = torch.empty_like(tensor)
    requests = dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, to), dist.P2POp(dist.irecv, buffer, source)])
    return buffer, requests


def finish(requests):
    for request in requests:
        request.wait()


def scores(q, k, owner, causal):
    """Logits of local queries and the keys of `owner`: local index i is position i * n + rank."""
    s = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.size(-1))
    if causal:
        length, diagonal = q.size(2), 0 if owner <= dist.get_rank() else -1
        s = s.masked_fill(~torch.ones(length, length, dtype=torch.bool).tril(diagonal), float("-inf"))
    return s


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal):
        rank, n = dist.get_rank(), dist.get_world_size()
        mine = torch.cat((k, v))  # along the batch
        out, lse, block, arriving = None, None, mine, None
        for s in range(n):
            if s + 1 < n:
                arriving, requests = exchange(mine, (rank + s + 1) % n, (rank - s - 1) % n)
            block_k, block_v = block.chunk(2)
            logits = scores(q, block_k, (rank - s) % n, causal)
            here = torch.logsumexp(logits, -1, keepdim=True)
            part = torch.exp(logits - here.clamp(min=-1e30)) @ block_v  # 0 where a row sees nothing
            if out is None:
                out, lse = part, here
            else:
                both = torch.logaddexp(lse, here)
                out = out * torch.exp(lse - both) + part * torch.exp(here - both)
                lse = both
            if s + 1 < n:
                finish(requests)
                block = arriving
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.causal = causal
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        rank, n = dist.get_rank(), dist.get_world_size()
        mine, scale = torch.cat((k, v)), 1 / math.sqrt(q.size(-1))
        delta = torch.einsum("bhqd,bhqd->bhq", grad, out).unsqueeze(-1)
        dq, home, block = torch.zeros_like(q), torch.zeros_like(mine), mine
        returning = None
        for s in range(n):
            if s + 1 < n:
                arriving, requests = exchange(mine, (rank + s + 1) % n, (rank - s - 1) % n)
            block_k, block_v = block.chunk(2)
            p = torch.exp(scores(q, block_k, (rank - s) % n, ctx.causal) - lse)
            ds = p * (torch.einsum("bhqd,bhkd->bhqk", grad, block_v) - delta) * scale
            dq += torch.einsum("bhqk,bhkd->bhqd", ds, block_k)
            dk = torch.einsum("bhqk,bhqd->bhkd", ds, q)
            dv = torch.einsum("bhqk,bhqd->bhkd", p, grad)
            part = torch.cat((dk, dv))
            if returning is not None:
                buffer, sent = returning
                finish(sent)
                home += buffer
                returning = None
            if s == 0:
                home += part
            else:
                returning = exchange(part, (rank - s) % n, (rank + s) % n)
            if s + 1 < n:
                finish(requests)
                block = arriving
        if returning is not None:
            finish(returning[1])
            home += returning[0]
        dk, dv = home.chunk(2)
        return dq, dk, dv, None


def ring_attention(q, k, v, causal):
    return Attention.apply(q, k, v, causal)
