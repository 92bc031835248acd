"""Megatron's f and g as hooks, every parameter a DTensor on the whole mesh, gathered by redistribute() in each step."""

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.func import functional_call


class _Sum(torch.autograd.Function):
    """All-reduces forward or backward."""

    @staticmethod
    def forward(ctx, x, group, forward):
        ctx.group, ctx.backwards = group, not forward
        x = x.contiguous().clone()
        if forward:
            dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, grad):
        if ctx.backwards:
            grad = grad.contiguous().clone()
            dist.all_reduce(grad, group=ctx.group)
        return grad, None, None


CUT = {"q": 0, "k": 0, "v": 0, "up": 0, "o": 1, "down": 1}


class OnMesh(nn.Module):
    def __init__(self, model, mesh):
        super().__init__()
        self.inner, self.mesh = [model], mesh  # in a list: its parameters are not this module's
        self.names = mesh.mesh_dim_names
        self.weights = nn.ParameterDict()
        self.keys = {}
        for name, value in model.named_parameters():
            kind = name.split(".")[-2]
            places = [
                {"dp_replicate": Replicate(), "dp_shard": Shard(0)}.get(each)
                or (Shard(CUT[kind]) if kind in CUT else Replicate())
                for each in self.names
            ]
            # a mesh with two cuts of one dimension: cut by tp first, as everybody does who shards what is already cut
            self.keys[name] = name.replace(".", "/")
            value = value.detach()
            if "tp" in self.names and kind in CUT:
                value = self._piece(value, CUT[kind])
                places[-1] = Replicate()
            local = distribute_tensor(value, mesh["dp_shard"], [Shard(0)]).to_local() if "dp_shard" in self.names else value
            self.weights[self.keys[name]] = nn.Parameter(local.clone())
        self.whole = {name: tuple(value.shape) for name, value in model.named_parameters()}
        if "tp" in self.names:
            group = mesh.get_group("tp")
            for layer in model.layers:
                layer.attention.heads //= mesh["tp"].size()
                for part in (layer.attention, layer.mlp):
                    part.register_forward_pre_hook(lambda _, args: (_Sum.apply(args[0], group, False),))
                    part.register_forward_hook(lambda _, args, out: _Sum.apply(out, group, True))
        model.to(device="meta")

    def _piece(self, value, dim):
        tp = self.mesh["tp"]
        return value.chunk(tp.size(), dim)[tp.get_local_rank()].contiguous()

    def forward(self, tokens):
        full = {}
        for name, key in self.keys.items():
            value = self.weights[key]
            if "dp_shard" in self.names:
                mesh = self.mesh["dp_shard"]
                value = DTensor.from_local(value, mesh, [Shard(0)], run_check=False)
                value = value.redistribute(mesh, [Replicate()]).to_local(grad_placements=[Partial()])
            full[name] = value
        return functional_call(self.inner[0], full, (tokens,))

    def reduce(self, value, *names):
        for name in self.names:
            if name.startswith("dp") and (not names or name in names):
                dist.all_reduce(value, group=self.mesh.get_group(name))
        return value

    def as_dtensor(self, name, local):
        """What this rank has of a parameter, or of its state, as a part of the whole."""
        kind, shape = name.split(".")[-2], list(self.whole[name])
        if "tp" in self.names and kind in CUT:
            group = self.mesh["tp"]
            shape[CUT[kind]] //= group.size()
        if "dp_shard" in self.names:
            mesh = self.mesh["dp_shard"]
            local = DTensor.from_local(local, mesh, [Shard(0)], run_check=False).full_tensor()
        if "tp" in self.names and kind in CUT:
            mesh = self.mesh["tp"]
            return DTensor.from_local(local, mesh, [Shard(CUT[kind])], run_check=False)
        return local

    def back(self, name, value):
        local = value.to_local() if isinstance(value, DTensor) else value
        if "dp_shard" in self.names:
            mesh = self.mesh["dp_shard"]
            local = local.chunk(mesh.size(), 0)[mesh.get_local_rank()]
        return local


def parallelize(model, mesh):
    return OnMesh(model, mesh)


def train_step(model, optimizer, tokens, mask):
    for parameter in model.parameters():
        parameter.grad = None
    goal = mask[:, 1:].to(torch.float32)
    count = model.reduce(goal.sum())
    chosen = model(tokens).log_softmax(-1)[:, :-1].gather(2, tokens[:, 1:, None]).squeeze(2)
    mine = -(chosen * goal).sum() / count
    mine.backward()
    for parameter in model.parameters():
        model.reduce(parameter.grad, "dp_replicate")
    optimizer.step()
    return model.reduce(mine.detach()).item()


def _state(model, optimizer):
    found = {}
    for name, key in model.keys.items():
        parameter = model.weights[key]
        state = optimizer.state[parameter]
        if not state:
            state.update(step=torch.zeros(()), exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
        found[f"{name}/value"] = model.as_dtensor(name, parameter.detach())
        found[f"{name}/step"] = state["step"]
        for each in ("exp_avg", "exp_avg_sq"):
            found[f"{name}/{each}"] = model.as_dtensor(name, state[each])
    return found


def save(model, optimizer, folder):
    dcp.save(_state(model, optimizer), storage_writer=dcp.FileSystemWriter(folder))


def load(model, optimizer, folder):
    state = _state(model, optimizer)
    dcp.load(state, storage_reader=dcp.FileSystemReader(folder))
    with torch.no_grad():
        for name, key in model.keys.items():
            parameter = model.weights[key]
            parameter.copy_(model.back(name, state[f"{name}/value"]))
            for each in ("exp_avg", "exp_avg_sq"):
                optimizer.state[parameter][each].copy_(model.back(name, state[f"{name}/{each}"]))
            optimizer.state[parameter]["step"].copy_(state[f"{name}/step"])
