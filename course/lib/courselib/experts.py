"""A router that prefers some experts, and three ways to spread its tokens: nothing, a penalty, a bias."""

from __future__ import annotations

import torch
from torch import Tensor


def skewed(tokens: int, experts: int, skew: float, seed: int = 0) -> Tensor:
    """Logits [tokens, experts] of a router that likes low-numbered experts more: `skew` is the spread of its taste."""
    draw = torch.Generator().manual_seed(seed)
    taste = -skew * torch.arange(experts) / experts
    return taste + torch.randn(tokens, experts, generator=draw)


def loads(logits: Tensor, k: int, bias: Tensor | None = None) -> Tensor:
    """How many tokens each expert gets, if each token takes its k largest logits (plus `bias`, which only chooses)."""
    chosen = (logits if bias is None else logits + bias).topk(k, dim=1).indices
    return torch.bincount(chosen.flatten(), minlength=logits.shape[1])


def dropped(load: Tensor, capacity: int) -> float:
    """The share of (token, expert) pairs over an expert's capacity."""
    return float((load - capacity).clamp(min=0).sum() / load.sum())


def balanced_by_bias(experts: int, k: int, skew: float, rate: float, steps: int, tokens: int = 2048) -> list[float]:
    """The fullest expert's load over the mean, step by step, while a bias is moved against the loads.

    After each step an expert with more than the mean loses `rate`, one with less gains it (Wang et al.,
    "Auxiliary-loss-free load balancing strategy for mixture-of-experts", 2024; DeepSeek-V3 technical report, 2024,
    section 2.1.2).
    """
    bias, seen = torch.zeros(experts), []
    for step in range(steps):
        load = loads(skewed(tokens, experts, skew, step), k, bias).float()
        seen.append(float(load.max() / load.mean()))
        bias += rate * torch.sign(load.mean() - load)
    return seen
