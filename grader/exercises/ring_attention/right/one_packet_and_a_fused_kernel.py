"""The kernel that F.scaled_dot_product_attention calls on a CPU, forward and backward, on each block.

In the backward pass one packet of K, V, dK and dV goes round, and comes home after n hops.
"""

import torch
import torch.distributed as dist

fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
fused_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def order(sequence, n):
    """Row r: the positions of shard r. Rows of n positions, every second one backward."""
    rows = torch.arange(sequence).view(-1, n)
    rows[1::2] = rows[1::2].flip(1)
    return rows.t().contiguous()


def split(x, n):
    return [x[:, :, places] for places in order(x.shape[2], n)]


def merge(shards):
    places = order(sum(shard.shape[2] for shard in shards), len(shards)).flatten()
    return torch.cat(shards, dim=2)[:, :, places.argsort()]


def masks(length, causal):
    """For every owner of keys what is added to the logits: a finite number that is far below all of them."""
    n, rank = dist.get_world_size(), dist.get_rank()
    if not causal:
        return [None] * n
    places = order(n * length, n)
    hidden = [places[rank][:, None] < places[owner] for owner in range(n)]
    return [torch.zeros(length, length).masked_fill_(each, -1e6)[None, None] for each in hidden]


class Around(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal):
        n, rank = dist.get_world_size(), dist.get_rank()
        own = q, k, v
        q, k, v = (each.contiguous() for each in own)
        mask = masks(q.shape[2], causal)
        result = None
        for hop in range(n):
            requests = []
            if hop < n - 1:
                next_k, next_v = torch.empty_like(k), torch.empty_like(v)
                for mine, coming in ((k, next_k), (v, next_v)):
                    requests.append(dist.irecv(coming, (rank - 1) % n))
                    requests.append(dist.isend(mine, (rank + 1) % n))
            part, part_lse = fused(q, k, v, 0.0, False, attn_mask=mask[(rank - hop) % n])
            part_lse = part_lse[..., None]
            if result is None:
                result, lse = part, part_lse
            else:
                new = torch.logaddexp(lse, part_lse)
                result = result * (lse - new).exp() + part * (part_lse - new).exp()
                lse = new
            for request in requests:
                request.wait()
            if hop < n - 1:
                k, v = next_k, next_v
        ctx.save_for_backward(*own, result, lse)
        ctx.mask = mask
        return result

    @staticmethod
    def backward(ctx, grad):
        q, k, v, result, lse = ctx.saved_tensors
        n, rank = dist.get_world_size(), dist.get_rank()
        q, k, v, grad = (each.contiguous() for each in (q, k, v, grad))
        lse = lse[..., 0].contiguous()
        dq = torch.zeros_like(q)
        # K and V travel ahead, so that nobody waits for them; their gradients travel one block's computing behind
        pair, gradients, requests = (k, v), None, []
        for hop in range(n):
            ahead = []
            if hop < n - 1:
                coming = torch.empty(2, *k.shape)
                ahead = [dist.irecv(coming, (rank - 1) % n), dist.isend(torch.stack(pair), (rank + 1) % n)]
            part = fused_backward(
                grad, q, pair[0], pair[1], result.contiguous(), lse, 0.0, False, attn_mask=ctx.mask[(rank - hop) % n]
            )
            dq = dq + part[0]
            for request in requests:
                request.wait()
            both = torch.stack(part[1:]) if gradients is None else torch.stack(part[1:]) + gradients
            if n > 1:
                gradients = torch.empty_like(both)
                requests = [dist.irecv(gradients, (rank - 1) % n), dist.isend(both, (rank + 1) % n)]
            else:
                gradients = both
            for request in ahead:
                request.wait()
            if hop < n - 1:
                pair = (coming[0], coming[1])
        for request in requests:
            request.wait()
        return dq, gradients[0], gradients[1], None


def ring_attention(q, k, v, causal):
    return Around.apply(q, k, v, causal)
