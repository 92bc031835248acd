"""Keeps scale and counter in tensors, decides in step by a SUM over what unscale_ left, and raises by a set of optimizers."""

import torch
import torch.distributed as dist


class LossScaler:
    def __init__(self, init_scale=2**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self._scale = torch.tensor(float(init_scale))
        self._tracker = torch.zeros((), dtype=torch.int32)
        self._factors = growth_factor, backoff_factor
        self._interval = growth_interval
        self._unscaled = set()
        self._infs = torch.zeros(1, dtype=torch.int64)

    def scale(self, loss):
        return loss * self._scale.to(loss.dtype)

    @torch.no_grad()
    def unscale_(self, optimizer):
        if id(optimizer) in self._unscaled:
            raise RuntimeError("already unscaled")
        self._unscaled.add(id(optimizer))
        inverse = self._scale.double().reciprocal().float()
        for parameter in (p for group in optimizer.param_groups for p in group["params"] if p.grad is not None):
            parameter.grad.mul_(inverse)
            self._infs += (~torch.isfinite(parameter.grad)).sum()

    def step(self, optimizer, *args, **kwargs):
        if id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        dist.all_reduce(self._infs, op=dist.ReduceOp.SUM)
        if self._infs.item() == 0:
            return optimizer.step(*args, **kwargs)

    def update(self):
        grow, shrink = self._factors
        if self._infs.item():
            self._scale.mul_(shrink)
            self._tracker.zero_()
        else:
            self._tracker += 1
            if self._tracker == self._interval:
                self._scale.mul_(grow)
                self._tracker.zero_()
        self._infs.zero_()
        self._unscaled.clear()
