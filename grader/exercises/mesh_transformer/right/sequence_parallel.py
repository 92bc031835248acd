"""Sequence parallelism between the parts, embedding and head cut over tp as well, and the loss on cut logits."""

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)


def parallelize(model, mesh):
    names = mesh.mesh_dim_names or ()
    if "tp" in names:
        tp = mesh["tp"]
        parallelize_module(
            model,
            tp,
            {
                "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
                "norm": SequenceParallel(),
                "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
            },
        )
        gathered = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
        for layer in model.layers:
            parallelize_module(
                layer,
                tp,
                {
                    "attention_norm": SequenceParallel(),
                    "attention": gathered,
                    "attention.q": ColwiseParallel(),
                    "attention.k": ColwiseParallel(),
                    "attention.v": ColwiseParallel(),
                    "attention.o": RowwiseParallel(output_layouts=Shard(1)),
                    "mlp_norm": SequenceParallel(),
                    "mlp": gathered,
                    "mlp.up": ColwiseParallel(),
                    "mlp.down": RowwiseParallel(output_layouts=Shard(1)),
                },
            )
            layer.attention.heads = layer.attention.heads // tp.size()
    dp = tuple(name for name in names if name.startswith("dp"))
    if "dp_shard" in dp:
        for layer in model.layers:
            fully_shard(layer, mesh=mesh[dp])
        fully_shard(model, mesh=mesh[dp])
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)  # gloo cannot multiply while it adds up
    model.dp_groups = [mesh.get_group(name) for name in dp]
    model.replicas = [mesh.get_group("dp_replicate")] if dp == ("dp_replicate",) else []
    return model


def _sum(value, groups):
    for group in groups:
        dist.all_reduce(value, group=group)
    return value


def train_step(model, optimizer, tokens, mask):
    optimizer.zero_grad(set_to_none=True)
    targets = torch.full_like(tokens, -100)
    targets[:, :-1] = torch.where(mask[:, 1:], tokens[:, 1:], -100)
    total = _sum((targets != -100).sum(), model.dp_groups)
    logits = model(tokens)
    if isinstance(logits, DTensor):
        with loss_parallel():
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum") / total
            loss.backward()
        loss = loss.full_tensor()
    else:
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum") / total
        loss.backward()
    for parameter in model.parameters():
        grad = parameter.grad
        _sum(grad._local_tensor if isinstance(grad, DTensor) else grad, model.replicas)
    optimizer.step()
    return float(_sum(loss.detach().clone(), model.dp_groups))


class App(Stateful):
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        return {
            "model": get_model_state_dict(self.model),
            "optimizer": get_optimizer_state_dict(self.model, self.optimizer),
        }

    def load_state_dict(self, state):
        set_model_state_dict(self.model, state["model"])
        set_optimizer_state_dict(self.model, self.optimizer, state["optimizer"])


def save(model, optimizer, folder):
    dcp.save({"app": App(model, optimizer)}, checkpoint_id=folder)


def load(model, optimizer, folder):
    dcp.load({"app": App(model, optimizer)}, checkpoint_id=folder)
