"""The plain optimizer on every rank.

check: state
kind: too_much_memory
only: yes
"""

import torch
import torch.distributed as dist


class ZeroOptimizer:
    def __init__(self, params, optimizer_class, stage=1, **kwargs):
        self.inner, self.stage = optimizer_class(params, **kwargs), stage

    @property
    def param_groups(self):
        return self.inner.param_groups

    def add_param_group(self, group):
        self.inner.add_param_group(group)

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self):
        if self.stage == 2:
            for group in self.param_groups:
                there = [p for p in group["params"] if p.grad is not None]
                if not there:
                    continue
                row = torch.cat([p.grad.flatten() for p in there])
                dist.all_reduce(row)
                row /= dist.get_world_size()
                for p, grad in zip(there, row.split([p.numel() for p in there])):
                    p.grad = grad.view_as(p)
        self.inner.step()
        if self.stage == 2:
            self.inner.zero_grad()
