"""distribute_module() with functions of its own around each linear layer; one flat data-parallel mesh for the counts."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed import checkpoint
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor


def _cut(dim):
    def place(name, module, mesh):
        for key, value in list(module.named_parameters(recurse=False)):
            module.register_parameter(key, torch.nn.Parameter(distribute_tensor(value.data, mesh, [Shard(dim)])))

    return place


def _take_features(module, inputs, mesh):
    return (DTensor.from_local(inputs[0], mesh, [Shard(2)], run_check=False),)


def _add_up(module, output, mesh):
    return output.redistribute(mesh, [Replicate()]).to_local()


def parallelize(model, mesh):
    names = mesh.mesh_dim_names
    if "tp" in names:
        tp = mesh["tp"]

        for layer in model.layers:
            for part in (layer.attention, layer.mlp):
                part.register_forward_pre_hook(
                    lambda module, inputs: (DTensor.from_local(inputs[0], tp, [Replicate()], run_check=False),)
                )
                for name, linear in part.named_children():
                    if name in ("o", "down"):
                        distribute_module(linear, tp, _cut(1), _take_features, _add_up)
                    else:
                        distribute_module(linear, tp, _cut(0), None, lambda module, output, mesh: output.to_local())
            layer.attention.heads //= tp.size()
    data = [name for name in names if name != "tp"]
    everybody = mesh[tuple(data)]._flatten("data") if len(data) > 1 else mesh[data[0]] if data else None
    if "dp_shard" in names:
        inside = mesh["dp_replicate", "dp_shard"] if len(data) > 1 else mesh["dp_shard"]
        for block in [*model.layers, model]:
            fully_shard(block, mesh=inside, reshard_after_forward=block is not model)
    model.data, model.by_hand = everybody, "dp_shard" not in names
    return model


def train_step(model, optimizer, tokens, mask):
    data = model.data
    n = 1 if data is None else data.size()
    numbers = torch.zeros(2)
    optimizer.zero_grad()
    losses = F.cross_entropy(model(tokens)[:, :-1].transpose(1, 2), tokens[:, 1:], reduction="none")
    mine = losses[mask[:, 1:]].sum()
    numbers[0], numbers[1] = mine.item(), mask[:, 1:].sum()
    if data is not None:
        dist.all_reduce(numbers, group=data.get_group())
    (mine * (n / numbers[1])).backward()
    if model.by_hand and data is not None:
        grads = [p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad for p in model.parameters()]
        row = torch.cat([grad.reshape(-1) for grad in grads]) / n
        dist.all_reduce(row, group=data.get_group())
        for grad, part in zip(grads, row.split([grad.numel() for grad in grads]), strict=True):
            grad.copy_(part.view_as(grad))
    optimizer.step()
    return (numbers[0] / numbers[1]).item()


def save(model, optimizer, folder):
    model_state, optimizer_state = states.get_state_dict(model, optimizer)
    checkpoint.async_save({"m": model_state, "o": optimizer_state}, checkpoint_id=folder).result()


def load(model, optimizer, folder):
    model_state, optimizer_state = states.get_state_dict(model, optimizer)
    wanted = {"m": model_state, "o": optimizer_state}
    checkpoint.load(wanted, checkpoint_id=folder)
    states.set_state_dict(model, optimizer, model_state_dict=wanted["m"], optim_state_dict=wanted["o"])
