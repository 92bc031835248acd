"""The language model on a mesh: tensor parallelism by DTensor in FSDP2, and checkpoints that another mesh loads."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from courselib import language


def by_heads(block: language.Block) -> None:
    """Order the rows of Q, K and V head by head, so that a slice of rows has whole heads with their Q, K and V."""
    rows = block.qkv.weight.detach()
    block.qkv.weight = nn.Parameter(rows.unflatten(0, (3, block.heads, -1)).transpose(0, 1).flatten(0, 2).clone())
    block.heads_of = partial(_heads, block)  # type: ignore[method-assign]


def _heads(block: language.Block, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = block.qkv(block.attention_norm(x)).unflatten(2, (block.heads, 3, -1)).permute(3, 0, 2, 1, 4)
    return q, k, v


TENSOR_PARALLEL = {
    "qkv": ColwiseParallel(),
    "out": RowwiseParallel(),
    "up": ColwiseParallel(),
    "down": RowwiseParallel(),
}


def parallel(model: language.Transformer, mesh: DeviceMesh) -> language.Transformer:
    """Cut each block over "tp", then shard everything over "dp", whichever of the two the mesh has."""
    names = mesh.mesh_dim_names or ()
    for block in model.blocks:
        by_heads(block)
        if "tp" in names:
            parallelize_module(block, mesh["tp"], TENSOR_PARALLEL)
            block.heads //= mesh["tp"].size()
        if "dp" in names:
            fully_shard(block, mesh=mesh["dp"])
    if "dp" in names:
        fully_shard(model, mesh=mesh["dp"])
    return model


def made(sizes: dict[str, int]) -> tuple[language.Transformer, torch.optim.Optimizer, DeviceMesh | None]:
    """The model on a mesh of these sizes, such as {"dp": 2, "tp": 2}; on one process for {}."""
    model = language.made()
    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes)) if sizes else None
    if mesh is not None:
        parallel(model, mesh)
    else:
        for block in model.blocks:
            by_heads(block)
    return model, torch.optim.AdamW(model.parameters(), lr=5e-3), mesh


def trained(sizes: dict[str, int], steps: int, folder: str = "") -> dict[str, Any]:
    """Train on the mesh; the ranks of a "tp" group have the same sequences. Saves to `folder`, if there is one."""
    model, optimizer, mesh = made(sizes)
    rank, ranks = _share(mesh)
    report = language.fit(model, optimizer, steps, rank, ranks)
    if folder:
        save(model, optimizer, folder)
    return report


def _share(mesh: DeviceMesh | None) -> tuple[int, int]:
    """Which share of each batch is this rank's, and of how many: ranks of a "tp" group have the same."""
    if mesh is None or "dp" not in (mesh.mesh_dim_names or ()):
        return 0, 1
    return mesh["dp"].get_local_rank(), mesh["dp"].size()


def steps_alone(sizes: dict[str, int], steps: int) -> None:
    """Only the steps, on ranks of this world: to count what they send."""
    model, optimizer, mesh = made(sizes)
    rank, ranks = _share(mesh)
    for step in range(steps):
        x, y = language.batch(step, rank, ranks)
        optimizer.zero_grad()
        language.loss(model(x), y).backward()
        optimizer.step()


def save(model: nn.Module, optimizer: torch.optim.Optimizer, folder: str) -> None:
    parameters, state = get_state_dict(model, optimizer)
    dcp.save({"model": parameters, "optimizer": state}, checkpoint_id=folder)


def load(model: nn.Module, optimizer: torch.optim.Optimizer, folder: str) -> None:
    """Into a model on any mesh: each rank reads the parts of each tensor that are its own now."""
    parameters, state = get_state_dict(model, optimizer)
    kept = {"model": parameters, "optimizer": state}
    with warnings.catch_warnings():  # torch warns of every load on one process, also of one that says no_dist
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        dcp.load(kept, checkpoint_id=folder, no_dist=not dist.is_initialized())
    set_state_dict(model, optimizer, model_state_dict=kept["model"], optim_state_dict=kept["optimizer"])


def files(folder: str) -> list[tuple[str, int]]:
    return [(path.name, path.stat().st_size) for path in sorted(Path(folder).iterdir())]
