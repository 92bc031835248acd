"""Parallelize_module on the layers, fully_shard on layers and root, plain all-reduces on meshes without dp_shard."""

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional as F


def whole_input():
    return PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),))


def parallelize(model, mesh):
    names = mesh.mesh_dim_names
    if "tp" in names:
        tp = mesh["tp"]
        for layer in model.layers:
            parallelize_module(
                layer,
                tp,
                {
                    "attention": whole_input(),
                    "attention.q": ColwiseParallel(),
                    "attention.k": ColwiseParallel(),
                    "attention.v": ColwiseParallel(),
                    "attention.o": RowwiseParallel(),
                    "mlp.up": ColwiseParallel(),
                    "mlp.down": RowwiseParallel(),
                },
            )
            layer.attention.heads //= tp.size()
    if "dp_shard" in names:
        data = mesh["dp_replicate", "dp_shard"] if "dp_replicate" in names else mesh["dp_shard"]
        for layer in model.layers:
            fully_shard(layer, mesh=data)
        fully_shard(model, mesh=data)
    model.layout = mesh
    return model


def data_groups(mesh):
    return [mesh.get_group(name) for name in mesh.mesh_dim_names if name != "tp"]


def summed(tensor, groups):
    for group in groups:
        dist.all_reduce(tensor, group=group)
    return tensor


def train_step(model, optimizer, tokens, mask):
    mesh = model.layout
    groups = data_groups(mesh)
    optimizer.zero_grad()
    logits = model(tokens)[:, :-1]
    counted = mask[:, 1:]
    total = summed(counted.sum(), groups).clamp(min=1)
    loss = F.cross_entropy(logits[counted], tokens[:, 1:][counted], reduction="sum") / total
    if "dp_shard" in mesh.mesh_dim_names:
        ranks = 1
        for group in groups:
            ranks *= dist.get_world_size(group)
        (loss * ranks).backward()  # fully_shard takes the mean over these ranks
    else:
        loss.backward()
        for parameter in model.parameters():
            grad = parameter.grad
            summed(grad.to_local() if isinstance(grad, DTensor) else grad, groups)
    optimizer.step()
    return summed(loss.detach().clone(), groups).item()


def save(model, optimizer, folder):
    parameters, state = get_state_dict(model, optimizer)
    dcp.save({"model": parameters, "optimizer": state}, checkpoint_id=folder)


def load(model, optimizer, folder):
    parameters, state = get_state_dict(model, optimizer)
    dcp.load({"model": parameters, "optimizer": state}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=parameters, optim_state_dict=state)
