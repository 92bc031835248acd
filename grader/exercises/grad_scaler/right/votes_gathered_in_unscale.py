"""unscale_ gathers the number of bad elements of all ranks."""

import enum
import torch
import torch.distributed as dist


class _Stage(enum.Enum):
    READY = 0
    UNSCALED = 1


class LossScaler:
    """State in tensors; the decision is all-gathered at unscale_ itself as a norm, which is nan or inf where bad."""

    def __init__(self, init_scale: float = 2**16, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000) -> None:
        self.s = torch.full((), float(init_scale), dtype=torch.float32)
        self.streak = 0
        self.g, self.b, self.n = growth_factor, backoff_factor, growth_interval
        self.stage = _Stage.READY
        self.bad = False

    def scale(self, loss):
        return self.s * loss

    def unscale_(self, optimizer):
        if self.stage is _Stage.UNSCALED:
            raise RuntimeError("already unscaled")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        inverse = self.s.double().reciprocal().float()
        mine = sum((~torch.isfinite(g)).sum() for g in grads) if grads else torch.zeros((), dtype=torch.int64)
        for g in grads:
            g.mul_(inverse)
        votes = [torch.zeros((), dtype=torch.int64) for _ in range(dist.get_world_size())]
        dist.all_gather(votes, mine)
        self.bad = any(int(v) for v in votes)
        self.stage = _Stage.UNSCALED

    def step(self, optimizer, *args, **kwargs):
        if self.stage is _Stage.READY:
            self.unscale_(optimizer)
        return None if self.bad else optimizer.step(*args, **kwargs)

    def update(self):
        self.streak = 0 if self.bad else self.streak + 1
        if self.bad:
            self.s = self.s * self.b
        elif self.streak >= self.n:
            self.s, self.streak = self.s * self.g, 0
        self.bad, self.stage = False, _Stage.READY
