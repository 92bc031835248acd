"""Votes by point-to-point messages: all tell rank 0, which tells all; replaces p.grad by a new tensor."""

import torch
import torch.distributed as dist


def vote(mine):
    rank, n = dist.get_rank(), dist.get_world_size()
    ballot = torch.tensor([mine], dtype=torch.uint8)
    if rank:
        dist.send(ballot, 0)
        dist.recv(ballot, 0)
        return bool(ballot)
    total = mine
    for other in range(1, n):
        dist.recv(ballot, other)
        total = total or bool(ballot)
    for other in range(1, n):
        dist.send(torch.tensor([total], dtype=torch.uint8), other)
    return total


class LossScaler:
    def __init__(self, init_scale=2**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self.history = []  # whether each step since the scale last changed was good
        self.value, self.up, self.down, self.interval = init_scale, growth_factor, backoff_factor, growth_interval
        self.verdict = None

    def scale(self, loss):
        return loss * self.value

    def unscale_(self, optimizer):
        if self.verdict:
            raise RuntimeError("call update() first")
        finite = True
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                finite = finite and torch.isfinite(p.grad).all().item()
                p.grad = p.grad / self.value
        self.verdict = "skip" if vote(not finite) else "step"

    def step(self, optimizer):
        if not self.verdict:
            self.unscale_(optimizer)
        return optimizer.step() if self.verdict == "step" else None

    def update(self):
        self.history.append(self.verdict)
        if self.verdict == "skip":
            self.value, self.history = self.value * self.down, []
        elif len(self.history) == self.interval:
            self.value, self.history = self.value * self.up, []
        self.verdict = None
