"""Rank 0 has the optimizer, and broadcasts every parameter.

check: collectives
kind: too_many_messages
"""

import torch
import torch.distributed as dist


class ZeroOptimizer:
    def __init__(self, params, optimizer_class, stage=1, **kwargs):
        self.inner, self.stage = optimizer_class(params, **kwargs), stage
        self.param_groups = self.inner.param_groups
        self.add_param_group = self.inner.add_param_group
        self.zero_grad = self.inner.zero_grad

    def step(self):
        params = [p for group in self.param_groups for p in group["params"]]
        if self.stage == 2:
            for p in params:
                if p.grad is not None:
                    dist.reduce(p.grad, 0)
                    p.grad /= dist.get_world_size()
        if dist.get_rank() == 0:
            self.inner.step()
        if self.stage == 2:
            self.zero_grad()
        for p in params:
            dist.broadcast(p.data, 0)
