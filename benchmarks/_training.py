"""The training exercises' reference solutions next to torch's own: the same steps, in seconds and in bytes."""

from __future__ import annotations

import copy
import json
import os
import re
import time
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import _backward

from grader.sandbox import netlink

RANKS = (2, 4)
LAYERS, WIDTH, BATCH, MICRO_BATCHES = 8, 512, 32, 8
BUCKET_MB = 2
RATE = 1e-3  # of learning; two steps move some parameters by more than MOVED, and both sides by the same
SAME, MOVED = 1e-5, 1e-3
COUNTED = 5  # steps whose bytes are counted
LIMIT = 1.3


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


def _trained(
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


def _ddp(module: Any) -> tuple[Side, Side]:
    from torch.nn.parallel import DistributedDataParallel

    batch = _batch(dist.get_rank())
    ours = module.DistributedModel(_model(), bucket_bytes=BUCKET_MB * 2**20)
    theirs = DistributedDataParallel(_model(), bucket_cap_mb=BUCKET_MB)
    return (
        _trained(ours, batch, lambda: list(ours.parameters()), ours.finish_gradient_sync),
        _trained(theirs, batch, lambda: list(theirs.parameters())),
    )


def _zero(module: Any) -> tuple[Side, Side]:
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


def _fsdp(module: Any) -> tuple[Side, Side]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    batch = _batch(dist.get_rank())
    ours = module.FullyShardedModel(_model())
    theirs, mesh = _model(), init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in theirs[::2]:
        fully_shard(layer, mesh=mesh)
    fully_shard(theirs, mesh=mesh)
    return (
        _trained(ours, batch, lambda: list(ours.full_state_dict().values()), ours.finish_gradient_sync),
        _trained(theirs, batch, lambda: [value.full_tensor() for value in theirs.state_dict().values()]),
    )


def _tensor_parallel(module: Any) -> tuple[Side, Side]:
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
        _trained(ours, batch, lambda: list(ours.parameters())),
        _trained(theirs, batch, lambda: [parameter.to_local() for parameter in theirs.parameters()]),
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


def _pipeline(function: str, schedule: str, split: bool = False) -> Callable[[Any], tuple[Side, Side]]:
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


# What is measured: the notebook, the library's name, and what makes the two sides of the notebook's code.
TRAINING: dict[str, tuple[str, str, Callable[[Any], tuple[Side, Side]]]] = {
    "ddp": ("ddp", "DistributedDataParallel", _ddp),
    "zero_optimizer": ("zero_optimizer", "ZeroRedundancyOptimizer", _zero),
    "fsdp": ("fsdp", "fully_shard", _fsdp),
    "tensor_parallel": ("tensor_parallel", "parallelize_module", _tensor_parallel),
    "run_gpipe": ("pipeline", "ScheduleGPipe", _pipeline("run_gpipe", "ScheduleGPipe")),
    "run_1f1b": ("pipeline", "Schedule1F1B", _pipeline("run_1f1b", "Schedule1F1B")),
    "run_zb_h1": (
        "zero_bubble",
        "ScheduleInterleavedZeroBubble",
        _pipeline("run_zb_h1", "ScheduleInterleavedZeroBubble", split=True),
    ),
}


def loaded(name: str, source: str) -> types.ModuleType:
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.ipynb", "exec"), module.__dict__)
    return module


def timed(work: Callable[[], Any]) -> float:
    dist.barrier()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def by_turns(ours: Callable[[], Any], theirs: Callable[[], Any], calls: int) -> tuple[float, float]:
    """Median seconds of a call, of its slowest rank each time, after two calls that warm up."""
    pair, times = (ours, theirs), []
    for number in range(-2, calls):
        turn = [0, 1] if number % 2 else [1, 0]
        took = {side: timed(pair[side]) for side in turn}
        if number >= 0:
            times.append([took[0], took[1]])
    slowest = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    mine, other = slowest.median(0).values.tolist()
    return mine, other


def _received() -> int:
    """Bytes that came over the TCP connections that this process has now, as the kernel counted them."""
    links = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.islink(entry.path)]
    own = {int(found[1]) for link in links if (found := re.fullmatch(r"socket:\[(\d+)\]", link))}
    return sum(each.bytes_received for each in netlink.sockets() if each.inode in own)


def _moved(step: Callable[[], Any], steps: int) -> int:
    """Bytes that so many steps moved, and two barriers, on all ranks together."""
    dist.barrier()
    before = _received()
    dist.barrier()
    for _ in range(steps):
        step()
    dist.barrier()
    moved = torch.tensor([_received() - before])
    dist.all_reduce(moved)
    return int(moved)


def bytes_a_step(step: Callable[[], Any]) -> float:
    return (_moved(step, COUNTED) - _moved(step, 0)) / COUNTED


def _compare(name: str, ours: Side, theirs: Side) -> None:
    """Two steps: the losses and the parameters must be the same, and others than at first."""
    first = [parameter.detach().clone() for parameter in ours.parameters()]
    for number in (1, 2):
        losses = ours.step(), theirs.step()
        assert losses[0] == losses[1] or abs(losses[0] - losses[1]) < SAME * abs(losses[1]), (
            f"{name}, {number}: {losses}"
        )
    pairs = list(zip(first, ours.parameters(), theirs.parameters(), strict=True))
    assert all(torch.allclose(mine, other, rtol=0, atol=SAME) for _, mine, other in pairs), f"{name}: other parameters"
    assert any((mine - before).abs().max() > MOVED for before, mine, _ in pairs), f"{name}: nothing was trained"


def rank_main(rank: int, folder: str, ranks: int, code: Mapping[str, str], calls: int) -> None:
    warnings.simplefilter("ignore", FutureWarning)  # torch has new names for what the notebooks call
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
    rows = []
    for name, source in code.items():
        _, library, make = TRAINING[name]
        ours, theirs = make(loaded(name, source))
        _compare(name, ours, theirs)
        mine, other = by_turns(ours.step, theirs.step, calls)
        sent, others = bytes_a_step(ours.step), bytes_a_step(theirs.step)
        row = {"function": name, "library": library, "ranks": ranks, "calls": calls}
        row |= {"ours": mine, "theirs": other, "ratio": mine / other}
        rows.append(row | {"our_bytes": sent, "their_bytes": others, "bytes_ratio": sent / others})
        if rank == 0:
            print(
                f"{name:16} {library:29} {ranks:5} {mine * 1e3:9.2f} {other * 1e3:9.2f} {mine / other:7.2f} "
                f"{sent / 1e6:9.3f} {others / 1e6:9.3f} {sent / others:7.3f}",
                flush=True,
            )
    if rank == 0:
        Path(folder, "rows.json").write_text(json.dumps(rows))
    dist.barrier()
    dist.destroy_process_group()
