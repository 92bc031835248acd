"""full_state_dict() returns views of rows that are freed at once.

check: state_dict
kind: wrong_result
only: yes
"""

import torch
import torch.distributed as dist
from torch import nn


class Unit:
    def __init__(self, name, child):
        self.params = list(child.parameters())
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.shapes = [p.shape for p in self.params]
        self.total = sum(p.numel() for p in self.params)
        self.padded = -(-self.total // self.world) * self.world
        p0 = self.params[0]
        row = torch.zeros(self.padded, dtype=p0.dtype)
        at = 0
        for p in self.params:
            row[at:at + p.numel()] = p.detach().flatten()
            at += p.numel()
        self.part = self.padded // self.world
        self.shard = nn.Parameter(row[self.rank * self.part:(self.rank + 1) * self.part].clone())
        self.row = torch.empty(self.padded, dtype=p0.dtype)
        at = 0
        for p in self.params:
            p.data = self.row[at:at + p.numel()].view(p.shape)
            at += p.numel()
        self.left = 0
        self.free()
        child.register_forward_pre_hook(lambda m, a: self.gather())
        child.register_forward_hook(self.after_forward)
        for p in self.params:
            p.register_post_accumulate_grad_hook(self.got_grad)

    def free(self):
        self.row.untyped_storage().resize_(0)

    def gather(self):
        storage = self.row.untyped_storage()
        if storage.size() == 0:
            storage.resize_(self.padded * self.row.element_size())
            dist.all_gather_into_tensor(self.row, self.shard.detach())

    def after_forward(self, module, args, out):
        self.free()
        self.left = len(self.params)
        if out.requires_grad:
            out.register_hook(lambda g: self.gather())

    def got_grad(self, p):
        self.left -= 1
        if self.left == 0:
            grad = torch.zeros(self.padded, dtype=self.shard.dtype)
            at = 0
            for p in self.params:
                grad[at:at + p.numel()] = p.grad.flatten()
                at += p.numel()
                p.grad = None
            out = torch.empty(self.part, dtype=grad.dtype)
            dist.reduce_scatter_tensor(out, grad)
            out /= self.world
            self.shard.grad = out
            self.free()


class FullyShardedModel(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.__dict__["module"] = module
        self.units = {}
        shards = []
        for name, child in module.named_children():
            if any(True for _ in child.parameters()):
                self.units[name] = Unit(name, child)
                shards.append(self.units[name].shard)
        self.shards = nn.ParameterList(shards)

    def forward(self, x):
        return self.module(x)

    def finish_gradient_sync(self):
        pass

    def full_state_dict(self):
        result = {k: v.clone() for k, v in self.module.named_buffers(recurse=False)}
        for name, child in self.module.named_children():
            unit = self.units.get(name)
            if unit:
                unit.gather()
            for key, value in child.state_dict(prefix=name + ".").items():
                result[key] = value.detach()
            if unit:
                unit.free()
        return result
