"""A small state machine; flags are all-gathered when the verdict is needed, in step or update."""

import enum

import torch
import torch.distributed as dist


class Stage(enum.Enum):
    FRESH = 0
    UNSCALED = 1
    STEPPED = 2


def _float32(value: float) -> float:
    return torch.tensor(value, dtype=torch.float32).item()


class LossScaler:
    def __init__(self, init_scale=2**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000) -> None:
        self.value = _float32(float(init_scale))
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.streak = 0
        self._begin()

    def _begin(self) -> None:
        self.stage = Stage.FRESH
        self.overflow_here = False
        self.overflow_anywhere: bool | None = None
        self.device = torch.device("cpu")

    def _verdict(self) -> bool:
        """Whether any rank found something: asked for by all ranks at the same place, and once."""
        if self.overflow_anywhere is None:
            mine = torch.tensor([int(self.overflow_here)], device=self.device)
            flags = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
            dist.all_gather(flags, mine)
            self.overflow_anywhere = any(flag.item() for flag in flags)
        return self.overflow_anywhere

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * torch.tensor(self.value, dtype=torch.float32, device=loss.device)

    @torch.no_grad()
    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if self.stage is not Stage.FRESH:
            raise RuntimeError(f"unscale_() called again before update(): {self.stage}")
        self.stage = Stage.UNSCALED
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.device = parameter.device
                if parameter.grad is None:
                    continue
                if not bool(parameter.grad.isfinite().all()):
                    self.overflow_here = True
                parameter.grad.div_(self.value)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.stage is Stage.STEPPED:
            raise RuntimeError("step() called again before update()")
        if self.stage is Stage.FRESH:
            self.unscale_(optimizer)
        self.stage = Stage.STEPPED
        if not self._verdict():
            optimizer.step()

    def update(self) -> None:
        if self.stage is not Stage.FRESH:
            if self._verdict():
                self.value = _float32(self.value * self.backoff_factor)
                self.streak = 0
            else:
                self.streak += 1
                if self.streak >= self.growth_interval:
                    self.streak = 0
                    grown = self.value * self.growth_factor
                    if grown <= torch.finfo(torch.float32).max:
                        self.value = _float32(grown)
        self._begin()
