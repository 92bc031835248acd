"""A schedule object holds the scale, and a jury decides by point-to-point messages through rank 0."""

from collections.abc import Iterator

import torch
import torch.distributed as dist


class _Schedule:
    """The scale, and when it changes."""

    def __init__(self, start: float, growth: float, backoff: float, interval: int) -> None:
        self.now = torch.tensor(float(start), dtype=torch.float32)
        self.growth, self.backoff, self.interval = growth, backoff, interval
        self.good = 0

    def after(self, skipped: bool) -> None:
        if skipped:
            self.good, self.now = 0, self.now * self.backoff
            return
        self.good += 1
        if self.good == self.interval:
            grown = self.now * self.growth
            self.good, self.now = 0, torch.where(torch.isfinite(grown), grown, self.now)


def _jury(guilty: bool, device: torch.device) -> bool:
    """Whether any rank says guilty: all tell rank 0, and rank 0 tells all."""
    rank, size = dist.get_rank(), dist.get_world_size()
    vote = torch.tensor([guilty], dtype=torch.int32, device=device)
    if rank != 0:
        dist.send(vote, 0)
        dist.recv(vote, 0)
        return bool(vote.item())
    for other in range(1, size):
        heard = torch.zeros_like(vote)
        dist.recv(heard, other)
        vote |= heard
    for other in range(1, size):
        dist.send(vote, other)
    return bool(vote.item())


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[torch.nn.Parameter]:
    for group in optimizer.param_groups:
        yield from group["params"]


class LossScaler:
    def __init__(
        self,
        init_scale: float = 2**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ) -> None:
        self.schedule = _Schedule(init_scale, growth_factor, backoff_factor, growth_interval)
        self.skip: bool | None = None
        self.stepped = False

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self.schedule.now.to(loss.device)

    @torch.no_grad()
    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if self.skip is not None:
            raise RuntimeError("unscale_() twice before update()")
        guilty, device = False, torch.device("cpu")
        for parameter in _parameters(optimizer):
            device = parameter.device
            if parameter.grad is not None:
                guilty |= not torch.isfinite(parameter.grad).all().item()
                parameter.grad.div_(self.schedule.now.to(device))
        self.skip = _jury(guilty, device)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.stepped:
            raise RuntimeError("step() twice before update()")
        if self.skip is None:
            self.unscale_(optimizer)
        self.stepped = True
        if self.skip is False:
            optimizer.step()

    def update(self) -> None:
        if self.skip is not None:
            self.schedule.after(self.skip)
        self.skip, self.stepped = None, False
