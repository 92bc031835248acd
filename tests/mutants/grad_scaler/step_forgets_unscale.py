"""Forgets in step() that it has unscaled, so that unscale_ may be called again before update().

check: raises
kind: wrong_result
only: yes
"""

import torch
import torch.distributed as dist


class LossScaler:
    def __init__(self, init_scale=2**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self._scale = float(init_scale)
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.good = 0
        self.found = None
        self.skipped = False

    def scale(self, loss):
        return loss * self._scale

    @torch.no_grad()
    def unscale_(self, optimizer):
        if self.found is not None:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        found = 0.0
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.div_(self._scale)
                    if not torch.isfinite(p.grad).all():
                        found = 1.0
        self.found = found

    def step(self, optimizer):
        if self.found is None:
            self.unscale_(optimizer)
        flag = torch.tensor([self.found])
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        self.skipped = flag.item() > 0
        self.found = None
        if not self.skipped:
            optimizer.step()

    def update(self):
        if self.skipped:
            self._scale *= self.backoff_factor
            self.good = 0
        else:
            self.good += 1
            if self.good == self.growth_interval:
                self._scale *= self.growth_factor
                self.good = 0
        self.found = None
        self.skipped = False
