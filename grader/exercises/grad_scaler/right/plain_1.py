"""One flag over all gradients, and one all-reduce of it by MAX in unscale_()."""

import torch
import torch.distributed as dist


class LossScaler:
    def __init__(self, init_scale=2**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self.current = float(init_scale)
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        self.good_steps = 0
        self.found = None

    def scale(self, loss):
        return loss * self.current

    def unscale_(self, optimizer):
        if self.found is not None:
            raise RuntimeError("unscale_() has been called since the last update()")
        bad = torch.zeros(())
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    if not parameter.grad.isfinite().all():
                        bad.fill_(1.0)
                    parameter.grad.div_(self.current)
        dist.all_reduce(bad, dist.ReduceOp.MAX)
        self.found = bool(bad)

    def step(self, optimizer):
        if self.found is None:
            self.unscale_(optimizer)
        if not self.found:
            optimizer.step()

    def update(self):
        if self.found:
            self.current *= self.backoff_factor
            self.good_steps = 0
        else:
            self.good_steps += 1
            if self.good_steps == self.growth_interval:
                self.current *= self.growth_factor
                self.good_steps = 0
        self.found = None
