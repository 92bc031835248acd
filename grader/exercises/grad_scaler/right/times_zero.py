"""foreach operations: a gradient that is not finite becomes NaN times zero; reduce to rank 0 and broadcast back."""

import math

import torch
import torch.distributed as dist


def _grads(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def _any_rank(flag: torch.Tensor) -> bool:
    dist.reduce(flag, dst=0, op=dist.ReduceOp.SUM)
    dist.broadcast(flag, src=0)
    return flag.item() > 0


class LossScaler:
    def __init__(
        self,
        init_scale: float = 2**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ) -> None:
        self._factor = torch.full((), init_scale, dtype=torch.float32)
        self._growth, self._backoff, self._interval = growth_factor, backoff_factor, growth_interval
        self._until_growth = growth_interval
        self._skip: dict[str, bool] = {}  # empty until unscale_ has been called
        self._done = False

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self._factor.to(loss.device)

    @torch.no_grad()
    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if self._skip:
            raise RuntimeError("the gradients have been divided already")
        device = optimizer.param_groups[0]["params"][0].device
        flag = torch.zeros((), device=device)
        grads = _grads(optimizer)
        if grads:
            sums = torch.stack([(grad * 0).sum() for grad in grads])  # 0 or NaN each
            flag += torch.isnan(sums).any()
            torch._foreach_mul_(grads, self._factor.double().reciprocal().float().item())
        self._skip["any"] = _any_rank(flag)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        if self._done:
            raise RuntimeError("step() once before each update()")
        if not self._skip:
            self.unscale_(optimizer)
        self._done = True
        if not self._skip["any"]:
            optimizer.step()

    def update(self) -> None:
        if self._skip.get("any") is True:
            self._factor = self._factor * self._backoff
            self._until_growth = self._interval
        elif self._skip:
            self._until_growth -= 1
            if not self._until_growth:
                larger = self._factor * self._growth
                self._factor = larger if math.isfinite(larger.item()) else self._factor
                self._until_growth = self._interval
        self._skip = {}
        self._done = False
