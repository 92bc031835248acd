"""Scale and finding are float32 tensors, as in torch; unscale_ all-reduces one flag."""

import torch
import torch.distributed as dist


class LossScaler:
    def __init__(
        self,
        init_scale: float = 2**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ) -> None:
        self._scale = torch.tensor(float(init_scale), dtype=torch.float32)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._good_steps = 0
        self._found: bool | None = None  # what unscale_ found since the last update
        self._stepped = False

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self._scale.to(loss.device)

    @torch.no_grad()
    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if self._found is not None:
            raise RuntimeError("unscale_() has already been called since the last update()")
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in parameters if p.grad is not None]
        inverse = self._scale.double().reciprocal().float()
        found = torch.zeros(1, device=parameters[0].device)
        for grad in grads:
            if not torch.isfinite(grad).all():
                found.fill_(1.0)
            grad.mul_(inverse.to(grad.device))
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
        self._found = bool(found.item())

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        if self._stepped:
            raise RuntimeError("step() has already been called since the last update()")
        if self._found is None:
            self.unscale_(optimizer)
        if not self._found:
            optimizer.step()
        self._stepped = True

    def update(self) -> None:
        if self._found:
            self._scale = self._scale * self._backoff_factor
            self._good_steps = 0
        elif self._found is not None:
            self._good_steps += 1
            if self._good_steps == self._growth_interval:
                grown = self._scale * self._growth_factor
                if torch.isfinite(grown):
                    self._scale = grown
                self._good_steps = 0
        self._found = None
        self._stepped = False
