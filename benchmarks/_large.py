"""The exercises on large models next to the same written with what torch has: pairs of steps, as in _pairs.

Experts: the layer as torchtitan has it, with torch's functional all-to-all, which autograd sees, and one grouped matrix
product for all experts of a rank. Its experts' weights are those of ours, stacked.

Attention: torch's context_parallel does not run on a CPU. It knows the attention kernels of GPUs; for the CPU's, torch
2.13 says that the operator "does not have a sharding strategy registered". The two loops inside of it, which send K and
V around and compute meanwhile, do run here if they are given the CPU's kernel. The other counterpart gathers all K and
V on every rank first, and needs public functions alone.

Mesh: the exercise's answer calls torch's own tools in torchtitan's order, parallelize_module and then fully_shard. So
it is next to DistributedDataParallel, on the same ranks and with the same tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from _pairs import WIDTH, Side, trained
from torch import Tensor, nn
from torch.distributed import _functional_collectives as collectives
from torch.distributed.tensor.experimental._context_parallel import _attention as context_parallel
from torch.nn import functional

EXPERTS, CHOICES, TOKENS = 8, 2, 256  # tokens of a rank
VOCABULARY, MODEL_WIDTH, HEADS, DEEP, SEQUENCES, LENGTH = 512, 256, 8, 4, 8, 64
MESH_RATE = 0.3
ATTENDED = 1024  # positions of the sequence that attention is for, on all ranks together


class _Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.gate, self.down = (nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH**0.5) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return functional.silu(x @ self.up) * (x @ self.gate) @ self.down


class _Grouped(nn.Module):
    """A mixture of experts without a limit on what an expert takes."""

    def __init__(self, router: nn.Linear, experts: list[_Expert]) -> None:
        super().__init__()
        self.router, self.ranks, self.mine = router, dist.get_world_size(), len(experts)
        names = ("up", "gate", "down")
        self.up, self.gate, self.down = (
            nn.Parameter(torch.stack([getattr(expert, name).detach() for expert in experts])) for name in names
        )

    def forward(self, x: Tensor) -> Tensor:
        scores, chosen = self.router(x).softmax(-1).topk(CHOICES)
        scores = scores / scores.sum(-1, keepdim=True)
        order = chosen.flatten().argsort(stable=True)
        token = order // CHOICES
        counts = torch.bincount(chosen.flatten(), minlength=EXPERTS)
        coming = collectives.all_to_all_single(counts, None, None, dist.group.WORLD).view(self.ranks, self.mine)
        gives, takes = counts.view(self.ranks, -1).sum(1).tolist(), coming.sum(1).tolist()
        rows = collectives.all_to_all_single(x[token], takes, gives, dist.group.WORLD)
        by_expert = torch.arange(self.mine).repeat(self.ranks).repeat_interleave(coming.flatten()).argsort(stable=True)
        ends = coming.sum(0).cumsum(0).int()
        rows = rows[by_expert]
        hidden = functional.silu(functional.grouped_mm(rows, self.up, offs=ends)) * functional.grouped_mm(
            rows, self.gate, offs=ends
        )
        done = functional.grouped_mm(hidden, self.down, offs=ends)
        back = collectives.all_to_all_single(done[by_expert.argsort()], gives, takes, dist.group.WORLD)
        return torch.zeros_like(x).index_add(0, token, scores.flatten()[order, None] * back)

    def finish_gradient_sync(self) -> None:
        for parameter in self.router.parameters():
            dist.all_reduce(parameter.grad)


def expert_parallel(module: Any) -> tuple[Side, Side]:
    """Each rank has tokens and a loss of its own. The tokens require a gradient, as in the middle of a model."""
    rank, mine = dist.get_rank(), EXPERTS // dist.get_world_size()
    torch.manual_seed(1)
    routers = [nn.Linear(WIDTH, EXPERTS), nn.Linear(WIDTH, EXPERTS)]
    routers[1].load_state_dict(routers[0].state_dict())
    experts = [_Expert() for _ in range(EXPERTS)][rank * mine : (rank + 1) * mine]
    theirs = _Grouped(routers[1], experts)
    ours = module.ExpertParallel(routers[0], experts, CHOICES, None)
    torch.manual_seed(2 + rank)
    batch = torch.randn(TOKENS, WIDTH, requires_grad=True), torch.randn(TOKENS, WIDTH)

    def parameters() -> list[Tensor]:
        stacked = [[getattr(expert, name) for expert in ours.experts] for name in ("up", "gate", "down")]
        return [*ours.router.parameters(), *(torch.stack(each) for each in stacked)]

    return (
        trained(ours, batch, parameters, ours.finish_gradient_sync),
        trained(
            theirs,
            batch,
            lambda: [*theirs.router.parameters(), theirs.up, theirs.gate, theirs.down],
            theirs.finish_gradient_sync,
        ),
    )


def mesh_transformer(module: Any) -> tuple[Side, Side]:
    """Ours is sharded on two ranks; on four it is tensor parallel as well, in pairs."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.nn.parallel import DistributedDataParallel

    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("dp_shard", "tp"))
    mesh = mesh if ranks > 2 else mesh["dp_shard"]

    def model() -> nn.Module:
        torch.manual_seed(1)
        made: nn.Module = module.Transformer(VOCABULARY, MODEL_WIDTH, HEADS, DEEP)
        return made

    tokens = torch.randint(VOCABULARY, (SEQUENCES, LENGTH), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(SEQUENCES, LENGTH, dtype=torch.bool)
    ours, theirs = module.parallelize(model(), mesh), DistributedDataParallel(model())
    optimizers = [torch.optim.SGD(each.parameters(), MESH_RATE, foreach=False) for each in (ours, theirs)]
    mine = tokens.chunk(2)[mesh.get_local_rank("dp_shard")]
    other = tokens.chunk(ranks)[rank]

    def step() -> float:
        """Here all ranks count as many tokens, so a mean of means is the mean."""
        optimizers[1].zero_grad()
        loss = functional.cross_entropy(theirs(other)[:, :-1].flatten(0, 1), other[:, 1:].flatten())
        loss.backward()
        optimizers[1].step()
        total = loss.detach()
        dist.all_reduce(total)
        return float(total) / ranks

    return (
        Side(
            lambda: module.train_step(ours, optimizers[0], mine, mask.chunk(2)[0]),
            lambda: [value.full_tensor() for _, value in sorted(ours.named_parameters())],
        ),
        Side(step, lambda: [value for _, value in sorted(theirs.module.named_parameters())]),
    )


class _TorchRing(torch.autograd.Function):
    """The loops inside of context_parallel, with the CPU's attention kernel."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
        out, logsumexp = context_parallel._templated_ring_attention(
            dist.group.WORLD, 2, kernel, q, k, v, is_causal=True, dropout_p=0.0
        )
        ctx.save_for_backward(q, k, v, out, logsumexp)
        found: Tensor = out
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
        found: tuple[Tensor, ...] = context_parallel._templated_ring_attention_backward(
            dist.group.WORLD, 2, kernel, grad, "grad_out", *ctx.saved_tensors, is_causal=True, dropout_p=0.0
        )
        return found


def _torch_ring(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    context_parallel.set_rotate_method("alltoall")
    found: Tensor = _TorchRing.apply(q, k, v)
    return found


def _gathered(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """All keys and values on every rank. Each half of the queries is called with the keys that come before its end."""
    rank, ranks, half = dist.get_rank(), dist.get_world_size(), q.shape[2] // 2
    both = collectives.all_gather_tensor_autograd(torch.stack([k, v]), 0, dist.group.WORLD).chunk(ranks)
    halves = [part.chunk(2, dim=3) for part in both]
    keys, values = torch.cat([first for first, _ in halves] + [last for _, last in reversed(halves)], dim=3)
    outs = []
    for place, queries in zip((rank, 2 * ranks - 1 - rank), q.chunk(2, dim=2), strict=True):
        end = (place + 1) * half
        mask = torch.ones(half, end, dtype=torch.bool).tril(end - half)
        outs.append(
            functional.scaled_dot_product_attention(queries, keys[:, :, :end], values[:, :, :end], attn_mask=mask)
        )
    return torch.cat(outs, dim=2)


def ring_attention(library: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Any], tuple[Side, Side]]:
    """A causal pass forward and one backward, on shards of two chunks each, as both cut the sequence."""

    def make(module: Any) -> tuple[Side, Side]:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        drawn = torch.randn(4, 1, HEADS, ATTENDED, WIDTH // HEADS, generator=torch.Generator().manual_seed(1))
        *shards, weights = (module.split(each, ranks)[rank] for each in drawn)

        def side(attention: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Side:
            given = [shard.clone().requires_grad_() for shard in shards]
            results = [torch.zeros_like(each) for each in (*given, weights)]

            def step() -> float:
                out = attention(*given)
                loss = (out * weights).sum()
                results[:] = [*torch.autograd.grad(loss, given), out.detach()]
                return float(loss.detach())

            return Side(step, lambda: results)

        return side(lambda q, k, v: module.ring_attention(q, k, v, True)), side(library)

    return make


against_torch_ring = ring_attention(_torch_ring)
against_all_gather = ring_attention(_gathered)
