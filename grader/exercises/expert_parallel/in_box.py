"""In each rank: the router, this rank's experts, and steps of forward, backward and finish_gradient_sync()."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from grader.ranks.model import compute

MARK = 0.001  # virtual seconds, before each part of a step: the trace is cut there


class _Expert(nn.Module):  # type: ignore[misc]
    """Two linear maps with tanh between them."""

    def __init__(self, up: Tensor, offset: Tensor, down: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.up, self.offset, self.down, self.shift = (nn.Parameter(part.clone()) for part in (up, offset, down, shift))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.up.t() + self.offset) @ self.down.t() + self.shift


class _Trained:
    """One layer as the learner makes it, and its steps of forward, backward and finish_gradient_sync()."""

    def __init__(
        self, make: Any, k: int, capacity: int | None, weight: Tensor, bias: Tensor, experts: list[list[Tensor]]
    ) -> None:
        router = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            router.weight.copy_(weight)
            router.bias.copy_(bias)
        mine = [_Expert(*parts) for parts in experts]
        self.model = make(router, mine, k, capacity)
        self.router = list(router.parameters())
        self.parameters = [*self.router, *(parameter for expert in mine for parameter in expert.parameters())]

    def forward(self, x: Tensor) -> tuple[Tensor, Any, Any]:
        """The tokens, with a gradient to come, what the layer makes of them, and a copy of that."""
        x = x.clone().requires_grad_()
        for parameter in self.parameters:
            parameter.grad = None
        compute(MARK)
        y = self.model(x)
        output = y.detach().clone() if isinstance(y, Tensor) else y
        compute(MARK)
        return x, y, output

    def backward(self, x: Tensor, y: Any, output: Any, wish: Tensor) -> dict[str, Any]:
        """The output and all gradients."""
        attached = isinstance(y, Tensor) and y.requires_grad
        if attached:  # what has another shape is judged for that
            ((y * wish).sum() if y.shape == wish.shape else y.sum()).backward()
        if not len(x):  # where there are no tokens, autograd may leave zeros or nothing: here it is nothing
            for parameter in self.router:
                parameter.grad = None
        compute(MARK)
        self.model.finish_gradient_sync()
        compute(MARK)
        grads = [None if parameter.grad is None else parameter.grad.clone() for parameter in self.parameters]
        return {
            "output": output, "attached": attached, "input": x.grad, "router": grads[:2],
            "experts": [grads[at : at + 4] for at in range(2, len(grads), 4)],
        }  # fmt: skip


def train(
    make: Any, k: int, capacity: int | None, weight: Tensor, bias: Tensor, experts: list[list[Tensor]],
    xs: list[Tensor], wishes: list[Tensor], layers: bool,
) -> list[dict[str, Any]]:  # fmt: skip
    """Every step's output and gradients. `layers`: every step has a layer of its own, and all go forward before the last
    of them goes backward first."""
    if not layers:
        layer = _Trained(make, k, capacity, weight, bias, experts)
        return [layer.backward(*layer.forward(x), wish) for x, wish in zip(xs, wishes, strict=True)]
    made = [_Trained(make, k, capacity, weight, bias, experts) for _ in xs]
    runs = [layer.forward(x) for layer, x in zip(made, xs, strict=True)]
    back = [layer.backward(*run, wish) for layer, run, wish in reversed(list(zip(made, runs, wishes, strict=True)))]
    return back[::-1]
