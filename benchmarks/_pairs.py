"""The training exercises' reference solutions and torch's own, as pairs of steps that do the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import _backward

LAYERS, WIDTH, BATCH, MICRO_BATCHES = 8, 512, 32, 8
BUCKET_MB = 2
RATE = 1e-3  # of learning; two steps move some parameters by more than 1e-3, and both sides by the same


@dataclass(frozen=True)
class Side:
    """One of the two that are measured: a step, which returns its loss where there is one, and all parameters that are
    to be the same as the other side's."""

    step: Callable[[], Any]
    parameters: Callable[[], list[Tensor]]


def _model() -> nn.Sequential:
    torch.manual_seed(1)
    model = nn.Sequential(*(layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.Tanh())))
    for layer in model[::2]:
        nn.init.xavier_uniform_(layer.weight)  # so that gradients do not vanish on their way to the first layer
    return model


def _batch(number: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(number)
    return torch.randn(BATCH, WIDTH, generator=generator), torch.randn(BATCH, WIDTH, generator=generator)


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """A mean over the samples, of a sum: its gradients are no rounding errors."""
    return (outputs - targets).square().sum(1).mean()


def trained(
    model: nn.Module,
    batch: tuple[Tensor, Tensor],
    parameters: Callable[[], list[Tensor]],
    sync: Callable[[], None] = lambda: None,
) -> Side:
    """A model trained the usual way."""
    x, y = batch
    optimizer = torch.optim.SGD(model.parameters(), RATE)

    def step() -> float:
        optimizer.zero_grad()
        x.grad = None
        loss = _loss(model(x), y)
        loss.backward()
        sync()
        optimizer.step()
        return float(loss.detach())

    return Side(step, parameters)


def ddp(module: Any) -> tuple[Side, Side]:
    from torch.nn.parallel import DistributedDataParallel

    batch = _batch(dist.get_rank())
    ours = module.DistributedModel(_model(), bucket_bytes=BUCKET_MB * 2**20)
    theirs = DistributedDataParallel(_model(), bucket_cap_mb=BUCKET_MB)
    return (
        trained(ours, batch, lambda: list(ours.parameters()), ours.finish_gradient_sync),
        trained(theirs, batch, lambda: list(theirs.parameters())),
    )


def zero(module: Any) -> tuple[Side, Side]:
    """The optimizer's step alone: the gradients are there, the mean over the ranks already.

    Torch's is as it is by default, where the parameters stay in the memory that they were given in, as ours do. With
    parameters_as_bucket_view they move, nothing is copied, and it is faster.
    """
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = _model()
    x, y = _batch(0)
    _loss(model(x), y).backward()
    other = copy.deepcopy(model)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        theirs.grad = mine.grad
    ours = module.ZeroOptimizer(model.parameters(), torch.optim.AdamW, lr=RATE)
    library = ZeroRedundancyOptimizer(other.parameters(), torch.optim.AdamW, lr=RATE)
    return Side(ours.step, lambda: list(model.parameters())), Side(library.step, lambda: list(other.parameters()))


def fsdp(module: Any) -> tuple[Side, Side]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    batch = _batch(dist.get_rank())
    ours = module.FullyShardedModel(_model())
    theirs, mesh = _model(), init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in theirs[::2]:
        fully_shard(layer, mesh=mesh)
    fully_shard(theirs, mesh=mesh)
    return (
        trained(ours, batch, lambda: list(ours.full_state_dict().values()), ours.finish_gradient_sync),
        trained(theirs, batch, lambda: [value.full_tensor() for value in theirs.state_dict().values()]),
    )


def tensor_parallel(module: Any) -> tuple[Side, Side]:
    """A transformer's MLP of as many parameters; its input requires a gradient, as in the middle of a model."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(1)
    mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
    x, y = _batch(0)
    batch = x.requires_grad_(), y
    ours = module.ParallelMLP.from_mlp(mlp)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    theirs = parallelize_module(mlp, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return (
        trained(ours, batch, lambda: list(ours.parameters())),
        trained(theirs, batch, lambda: [parameter.to_local() for parameter in theirs.parameters()]),
    )


class _Split(nn.Module):
    """A stage whose backward pass is two calls, which do what torch's own stages do."""

    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        self.layers = layers
        self.kept: dict[Tensor, list[Any]] = {}

    def activation_shape(self, micro_batch_size: int) -> tuple[int, ...]:
        return micro_batch_size, WIDTH

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        y = self.layers(x)
        output: Tensor = y.detach()
        self.kept[output] = [x, y]
        return output

    def backward_input(self, output: Tensor, grad: Tensor) -> Tensor:
        x, y = self.kept[output]
        grads, self.kept[output] = _backward.stage_backward_input([y], [grad], [x], self.parameters())
        return cast(Tensor, grads[0])

    def backward_weight(self, output: Tensor) -> None:
        _backward.stage_backward_weight(self.parameters(), self.kept.pop(output))


def pipeline(function: str, schedule: str, split: bool = False) -> Callable[[Any], tuple[Side, Side]]:
    """With `split` our stage's backward pass is two calls, and torch's schedule is one of those for several stages."""

    def make(module: Any) -> tuple[Side, Side]:
        from torch.distributed import pipelining

        rank, ranks = dist.get_rank(), dist.get_world_size()
        per_rank = 2 * LAYERS // ranks
        mine = _model()[rank * per_rank : (rank + 1) * per_rank]
        mine.activation_shape = lambda micro_batch_size: (micro_batch_size, WIDTH)
        other = copy.deepcopy(mine)
        x, y = _batch(0)
        stage = pipelining.PipelineStage(other, rank, ranks, torch.device("cpu"))
        library = getattr(pipelining, schedule)([stage] if split else stage, MICRO_BATCHES, _loss)
        given = _Split(mine) if split else mine
        optimizers = [torch.optim.SGD(model.parameters(), RATE) for model in (mine, other)]

        def ours() -> float | None:
            optimizers[0].zero_grad()
            loss: float | None = getattr(module, function)(given, x, y, _loss, MICRO_BATCHES)
            optimizers[0].step()
            return loss

        def theirs() -> float | None:
            optimizers[1].zero_grad()
            losses: list[Tensor] = []
            if rank == ranks - 1:
                library.step(target=y, losses=losses)
            else:
                library.step(*([x] if rank == 0 else []))
            optimizers[1].step()
            return torch.stack(losses).mean().item() if losses else None

        return Side(ours, lambda: list(mine.parameters())), Side(theirs, lambda: list(other.parameters()))

    return make
