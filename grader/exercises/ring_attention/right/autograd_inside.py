"""Each block's own graph is made anew in the backward pass, and torch.autograd.grad goes through it."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class Ring:
    """Sends a pair of tensors to the next rank, and receives one from the rank before; one exchange at a time."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.next, self.before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        self.requests: list[Any] = []

    def exchange(self, *tensors: Tensor) -> list[Tensor]:
        buffers = []
        for tag, tensor in enumerate(tensors):
            tensor = tensor.contiguous()
            buffer = torch.empty_like(tensor)
            self.requests.append(dist.isend(tensor, self.next, tag=tag))
            self.requests.append(dist.irecv(buffer, self.before, tag=tag))
            buffers.append(buffer)
        return buffers

    def wait(self) -> None:
        while self.requests:
            self.requests.pop(0).wait()


def _place(sequence: int, n: int) -> list[int]:
    """The positions in the order in which the shards hold them: an early and a late half for every rank."""
    half = sequence // (2 * n)
    order: list[int] = []
    for rank in range(n):
        for chunk in (rank, 2 * n - rank - 1):
            order.extend(range(chunk * half, (chunk + 1) * half))
    return order


def split(x: Tensor, n: int) -> list[Tensor]:
    moved = x.index_select(2, torch.tensor(_place(x.shape[2], n)))
    return list(moved.tensor_split(n, dim=2))


def merge(shards: list[Tensor]) -> Tensor:
    together = torch.cat(shards, 2)
    order = torch.tensor(_place(together.shape[2], len(shards)))
    whole = torch.empty_like(together)
    whole[:, :, order] = together
    return whole


def block(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The unnormalized output of one block and its log-sum-exp, which is -inf for rows that see nothing."""
    logits = torch.matmul(q, k.mT) * q.shape[-1] ** -0.5
    if mask is not None:
        logits = logits.masked_fill(mask, -torch.inf)
    lse = logits.logsumexp(-1, keepdim=True)
    weights = (logits - lse.masked_fill(lse == -torch.inf, 0)).exp()
    return torch.matmul(weights, v), lse


class RingAttention(torch.autograd.Function):
    @staticmethod
    def mask(q: Tensor, owner: int, causal: bool) -> Tensor | None:
        if not causal:
            return None
        n, length = dist.get_world_size(), q.shape[2]
        place = torch.tensor(_place(n * length, n)).view(n, length)
        return place[dist.get_rank()][:, None] < place[owner][None, :]

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        ring = Ring()
        own = q, k, v
        out = lse = None
        for hop in range(ring.size):
            last = hop == ring.size - 1
            coming = None if last else ring.exchange(k, v)
            part, part_lse = block(q, k, v, RingAttention.mask(q, (ring.rank - hop) % ring.size, causal))
            if out is None:
                out, lse = part, part_lse
            else:
                out = out - torch.sigmoid(part_lse - lse) * (out - part)
                lse = torch.logaddexp(lse, part_lse)
            ring.wait()
            if coming:
                k, v = coming
        ctx.save_for_backward(*own, out, lse)
        ctx.causal = causal
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, out, lse = ctx.saved_tensors
        ring, home = Ring(), Ring()
        dq = torch.zeros_like(q)
        correction = (grad * out).sum(-1, keepdim=True)
        dk = dv = None
        for hop in range(ring.size):
            coming = None if hop == ring.size - 1 else ring.exchange(k, v)
            with torch.enable_grad():
                inputs = [each.detach().requires_grad_() for each in (q, k, v)]
                mask = RingAttention.mask(q, (ring.rank - hop) % ring.size, ctx.causal)
                logits = torch.matmul(inputs[0], inputs[1].mT) * q.shape[-1] ** -0.5
                if mask is not None:
                    logits = logits.masked_fill(mask, -torch.inf)
                weights = (logits - lse).exp()
                shifted = torch.matmul(weights, inputs[2])
                # the sum over keys of weight * (grad . v - correction), whose derivative is the softmax's
                loss = (shifted * grad).sum() - (weights * correction).sum()
            parts = torch.autograd.grad(loss, inputs)
            dq += parts[0]
            if dk is None:
                dk, dv = parts[1], parts[2]
            else:
                home.wait()
                dk, dv = dk_coming + parts[1], dv_coming + parts[2]
            ring.wait()
            if coming:
                k, v = coming
            if ring.size > 1:
                dk_coming, dv_coming = home.exchange(dk, dv)
        if ring.size > 1:
            home.wait()
            dk, dv = dk_coming, dv_coming
        return dq, dk, dv, None


def ring_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    return RingAttention.apply(q, k, v, causal)
