"""Two rings: one half of each shard's keys goes right, the other half goes left. Every query block is worked off in
turn, and plain Python lists hold what the blocks have met so far."""

import torch
import torch.distributed as dist

LEFT, RIGHT = -1, 1


def split(x, n):
    pieces = torch.tensor_split(x, 2 * n, 2)
    return [torch.cat((pieces[2 * n - 1 - i], pieces[i]), 2) for i in range(n)]  # the late piece first


def merge(shards):
    n = len(shards)
    pieces = [None] * (2 * n)
    for i in range(n):
        pieces[2 * n - 1 - i], pieces[i] = torch.tensor_split(shards[i], 2, 2)
    return torch.cat(pieces, 2)


def where(rank, n, length):
    half = length // 2
    late, early = (2 * n - 1 - rank) * half, rank * half
    return torch.cat((torch.arange(late, late + half), torch.arange(early, early + half)))


def halves(k, v):
    """What starts to the right and what starts to the left: (2, batch, heads, half, dim) each."""
    both = torch.stack((k, v))
    half = both.shape[3] // 2
    return {RIGHT: both[:, :, :, :half].contiguous(), LEFT: both[:, :, :, half:].contiguous()}


def pass_on(tensors, tag):
    rank, n = dist.get_rank(), dist.get_world_size()
    buffers = {way: torch.empty_like(tensor) for way, tensor in tensors.items()}
    requests = []
    for way, tensor in tensors.items():
        mark = tag + (way == RIGHT)
        requests.append(dist.isend(tensor, (rank + way) % n, tag=mark))
        requests.append(dist.irecv(buffers[way], (rank - way) % n, tag=mark))
    return buffers, requests


def done(requests):
    for request in requests:
        request.wait()
    requests.clear()


def logits(q, k, way, owner, causal):
    n, length, half = dist.get_world_size(), q.shape[2], q.shape[2] // 2
    scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
    if causal:
        keys = where(owner, n, length)
        keys = keys[:half] if way == RIGHT else keys[half:]
        visible = where(dist.get_rank(), n, length).unsqueeze(1) >= keys
        scores = torch.where(visible, scores, torch.tensor(-torch.inf))
    return scores


class TwoRings(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal):
        rank, n = dist.get_rank(), dist.get_world_size()
        numerator = torch.zeros(q.shape)
        denominator, maximum = torch.zeros(*q.shape[:3], 1), torch.full((*q.shape[:3], 1), -torch.inf)
        here = halves(k, v)
        for hop in range(n):
            following, requests = pass_on(here, 0) if hop < n - 1 else ({}, [])
            for way in (RIGHT, LEFT):
                scores = logits(q, here[way][0], way, (rank - way * hop) % n, causal)
                new = torch.maximum(maximum, scores.amax(3, keepdim=True))
                safe = torch.where(torch.isinf(new), torch.zeros(()), new)
                weights, factor = torch.exp(scores - safe), torch.exp(maximum - safe)
                numerator.mul_(factor).add_(weights @ here[way][1])
                denominator.mul_(factor).add_(weights.sum(3, keepdim=True))
                maximum = new
            done(requests)
            here = following
        out = numerator / denominator
        ctx.save_for_backward(q, k, v, out, maximum, denominator)
        ctx.causal = causal
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, maximum, denominator = ctx.saved_tensors
        rank, n = dist.get_rank(), dist.get_world_size()
        here, scale = halves(k, v), q.shape[3] ** -0.5
        row = (out * grad).sum(3, keepdim=True)
        gradient_q = torch.zeros(q.shape)
        gradients, waiting = {}, []
        for hop in range(n):
            following, requests = pass_on(here, 0) if hop < n - 1 else ({}, [])
            added = {}
            for way in (RIGHT, LEFT):
                keys, numbers = here[way]
                weights = torch.exp(logits(q, keys, way, (rank - way * hop) % n, ctx.causal) - maximum) / denominator
                slopes = weights * (grad @ numbers.transpose(2, 3) - row) * scale
                gradient_q += slopes @ keys
                added[way] = torch.stack((slopes.transpose(2, 3) @ q, weights.transpose(2, 3) @ grad))
            done(waiting)
            for way, tensor in gradients.items():
                added[way] += tensor
            if n > 1:
                gradients, waiting = pass_on(added, 2)
            else:
                gradients = added
            done(requests)
            here = following
        done(waiting)
        gradient_k, gradient_v = torch.cat((gradients[RIGHT], gradients[LEFT]), 3)
        return gradient_q, gradient_k, gradient_v, None


def ring_attention(q, k, v, causal):
    return TwoRings.apply(q, k, v, causal)
