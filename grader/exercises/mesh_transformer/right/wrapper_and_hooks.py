"""Parallelize returns a wrapper module; DTensor inputs by forward pre-hooks; gradients summed (divide factor 1) or reduced by post-accumulate hooks; attention and mlp are FSDP units of their own; a Stateful for the checkpoint; log_softmax times mask."""

import functools

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Laid(nn.Module):
    """The model on a mesh: a wrapper that knows its data-parallel groups."""

    def __init__(self, inner, mesh):
        super().__init__()
        names = mesh.mesh_dim_names
        self.groups = [mesh.get_group(name) for name in names if name.startswith("dp_")]
        if "tp" in names:
            self.split_heads(inner, mesh["tp"])
        if "dp_shard" in names:
            self.shard(inner, mesh[tuple(name for name in names if name != "tp")])
        else:
            for parameter in inner.parameters():
                parameter.register_post_accumulate_grad_hook(self.reduce)
        self.inner = inner

    @staticmethod
    def split_heads(inner, tp):
        def replicated(_, args):
            return (DTensor.from_local(args[0], tp, (Replicate(),), run_check=False),)

        plan = {"attention.o": RowwiseParallel(), "mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
        plan |= {f"attention.{name}": ColwiseParallel() for name in "qkv"}
        for layer in inner.layers:
            parallelize_module(layer, tp, plan)
            layer.attention.register_forward_pre_hook(replicated)
            layer.mlp.register_forward_pre_hook(replicated)
            layer.attention.heads = layer.attention.heads // tp.size()

    @staticmethod
    def shard(inner, data):
        units = [inner.embed, *(part for layer in inner.layers for part in (layer.attention, layer.mlp)), inner.head]
        for unit in units:
            fully_shard(unit, mesh=data)
        fully_shard(inner, mesh=data)
        for module in inner.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)

    def reduce(self, parameter):
        self.total(parameter.grad.to_local() if isinstance(parameter.grad, DTensor) else parameter.grad)

    def total(self, tensor):
        return functools.reduce(lambda t, group: (dist.all_reduce(t, group=group), t)[1], self.groups, tensor)

    def forward(self, tokens):
        return self.inner(tokens)


class Training(Stateful):
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def state_dict(self):
        return dict(zip(("model", "optimizer"), get_state_dict(self.model.inner, self.optimizer)))

    def load_state_dict(self, state):
        set_state_dict(
            self.model.inner, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )


def parallelize(model, mesh):
    return Laid(model, mesh)


def train_step(model, optimizer, tokens, mask):
    optimizer.zero_grad(set_to_none=True)
    both = torch.zeros(2, dtype=torch.float64)
    both[1] = mask[:, 1:].sum()
    count = model.total(both[1:].clone()).clamp_(min=1).item()
    log = model(tokens).log_softmax(-1)[:, :-1].gather(2, tokens[:, 1:, None]).squeeze(2)
    loss = -(log * mask[:, 1:]).sum() / count
    loss.backward()
    optimizer.step()
    both[0] = loss.detach()
    return float(model.total(both)[0])


def save(model, optimizer, folder):
    dcp.save({"training": Training(model, optimizer)}, checkpoint_id=folder)


def load(model, optimizer, folder):
    dcp.load({"training": Training(model, optimizer)}, checkpoint_id=folder)
