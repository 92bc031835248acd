"""In each rank: the unsplit layers, their parallel counterparts, and one forward and backward of these."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

ACTIVATIONS = {"gelu": nn.GELU, "a leaky ReLU": partial(nn.LeakyReLU, 0.25), "tanh": nn.Tanh}


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        made.weight.copy_(weight)
        if bias is not None:
            made.bias.copy_(bias)
    return made


def _passed(module: nn.Module, x: Tensor, grad: Tensor | None, beside: Tensor | None = None) -> dict[str, Any]:
    """Forward, and backward from this gradient of the output, where there is one. `beside` is what another use of the
    input adds to its gradient, as a residual does."""
    x = x.clone().requires_grad_(grad is not None)
    found: dict[str, Any] = {}
    if grad is None:
        with torch.no_grad():
            y = module(x)
    else:
        y = module(x)
        if y.shape == grad.shape:  # else it is judged for its shape
            loss = (y * grad).sum()
            (loss if beside is None else loss + (x * beside).sum()).backward()
        found["input_grad"] = x.grad
    found["output"] = y
    found["parameters"] = list(module.parameters())
    kept = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in module.parameters()}
    found["bytes"] = sum(kept.values())
    found["grads"] = [parameter.grad for parameter in module.parameters()]
    return found


def layer(cls: Any, weight: Tensor, bias: Tensor | None, x: Tensor, grad: Tensor | None) -> dict[str, Any]:
    """A parallel linear layer: `cls.from_linear` of one with this weight and bias."""
    return _passed(cls.from_linear(_linear(weight, bias)), x, grad)


def mlp(
    cls: Any, activation: str, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, x: Tensor, grad: Tensor | None,
    beside: Tensor | None,
) -> dict[str, Any]:  # fmt: skip
    """A parallel block of two linear layers with an activation between them: `cls.from_mlp`."""
    block = nn.Sequential(_linear(w1, b1), ACTIVATIONS[activation](), _linear(w2, b2))
    return _passed(cls.from_mlp(block), x, grad, beside)
