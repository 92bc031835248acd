"""What chapter 14 trains and serves: three spiral arms in the plane, and a small network that tells them apart."""

from __future__ import annotations

import math

import torch

ARMS = 3


def network() -> torch.nn.Sequential:
    """Points (n, 2) to scores (n, 3)."""
    linear = torch.nn.Linear
    return torch.nn.Sequential(
        linear(2, 64), torch.nn.ReLU(), linear(64, 64), torch.nn.ReLU(), linear(64, ARMS)
    )  # fmt: skip


def samples(number: int, noise: float = 0.05, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """`number` points (n, 2) and the arm of each (n,): float32 and int64."""
    source = torch.Generator().manual_seed(seed)
    arms = torch.arange(number) % ARMS
    radius = torch.rand(number, generator=source)
    angle = 4 * radius + arms * (2 * math.pi / ARMS)
    points = radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    return points + noise * torch.randn(number, 2, generator=source), arms
