"""Gathers every rank's squared norm: one that is not finite makes all skip. Local optimism, one state machine."""

import math

import torch
import torch.distributed as dist

READY, UNSCALED = "ready", "unscaled"


class LossScaler:
    def __init__(self, init_scale: float = 2**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000) -> None:
        self.exponent_free_scale = init_scale
        self.growth_factor, self.backoff_factor, self.growth_interval = growth_factor, backoff_factor, growth_interval
        self.left, self.state, self.finite = growth_interval, READY, True

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return self.exponent_free_scale * loss

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if self.state == UNSCALED:
            raise RuntimeError("unscale_ twice")
        self.state = UNSCALED
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        for gradient in gradients:
            gradient /= self.exponent_free_scale
        norm = sum((gradient.double() ** 2).sum() for gradient in gradients) + torch.zeros((), dtype=torch.float64)
        norms = [torch.zeros((), dtype=torch.float64) for _ in range(dist.get_world_size())]
        dist.all_gather(norms, norm)
        self.finite = all(math.isfinite(one) for one in norms)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.state == READY:
            self.unscale_(optimizer)
        if self.finite:
            optimizer.step()

    def update(self) -> None:
        self.left = self.left - 1 if self.finite else self.growth_interval
        if not self.finite:
            self.exponent_free_scale *= self.backoff_factor
        elif self.left == 0:
            self.exponent_free_scale *= self.growth_factor
            self.left = self.growth_interval
        self.state, self.finite = READY, True
