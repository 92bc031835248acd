"""Trains with a learner's LossScaler on gradients that are given, and writes down what it did in every step."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch


class _Counted(torch.optim.Optimizer):  # type: ignore[misc]
    """SGD with momentum that counts its steps.

    It leaves torch's __init__ out, for the first optimizer that a process makes has it import all of torch._dynamo.
    """

    def __init__(self, groups: list[dict[str, Any]], rate: float, momentum: float) -> None:
        self.defaults = {"lr": rate, "momentum": momentum}
        self.param_groups = [{**self.defaults, **group} for group in groups]
        self.state: Any = defaultdict(dict)
        self.steps = 0

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in (one for group in self.param_groups for one in group["params"] if one.grad is not None):
            if set_to_none:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    def step(self, closure: Any = None) -> None:
        self.steps += 1
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in (one for one in group["params"] if one.grad is not None):
                    self._move(parameter, group)

    def _move(self, parameter: Any, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if "momentum_buffer" in state:
            state["momentum_buffer"].mul_(group["momentum"]).add_(parameter.grad)
        else:
            state["momentum_buffer"] = parameter.grad.clone()
        parameter.sub_(state["momentum_buffer"], alpha=group["lr"])


class _Training:
    """Two parameters that have gradients and one that has none, and their optimizer."""

    def __init__(self, start: Any, rate: float, momentum: float) -> None:
        half = len(start) // 2
        self.used = [torch.nn.Parameter(start[:half].clone()), torch.nn.Parameter(start[half:].clone())]
        unused = torch.nn.Parameter(torch.ones(2))
        groups = [{"params": [self.used[0], unused]}, {"params": [self.used[1]]}]
        self.optimizer = _Counted(groups, rate, momentum)
        self.half = half

    def backward(self, scaler: Any, wanted: Any, poison: list[Any]) -> None:
        """Gradients that are `wanted` times the scale, but for what is poisoned: [place, what]. Where that is
        "none" there is no gradient at all."""
        self.optimizer.zero_grad()
        loss = (self.used[0] * wanted[: self.half]).sum() + (self.used[1] * wanted[self.half :]).sum()
        scaler.scale(loss).backward()
        for place, what in poison:
            if what == "none":
                self.used[0].grad = self.used[1].grad = None
                continue
            one, at = (self.used[0], place) if place < self.half else (self.used[1], place - self.half)
            one.grad[at] = float(what)

    def gradient(self) -> Any:
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in self.used]
        return torch.cat([gradient.detach().clone() for gradient in gradients])

    def parameters(self) -> Any:
        return torch.cat([parameter.detach().clone() for parameter in self.used])


def _scale(scaler: Any) -> float:
    scaled = scaler.scale(torch.tensor(1.0))
    if not isinstance(scaled, (torch.Tensor, int, float)):
        raise TypeError(f"scale() returned a {type(scaled).__name__}. Return the scaled loss")
    return float(scaled)


def train(
    make: Any, options: dict[str, Any], start: Any, gradients: Any, poison: list[list[Any]], how: list[str],
    sgd: list[float], other_scale: float,
) -> dict[str, Any]:  # fmt: skip
    """Every step's scale, whether the optimizer made it, the gradient after unscale_, and the parameters."""
    scaler = make(**options)
    training = _Training(start, *sgd)
    scales, stepped, unscaled, parameters = [_scale(scaler)], [], [], []
    for wanted, bad, way in zip(gradients, poison, how, strict=True):
        training.backward(scaler, wanted, bad)
        other: Any = make(init_scale=other_scale) if way == "beside" else None
        if way != "step":
            scaler.unscale_(training.optimizer)
        if way == "beside":
            beside = _Training(start, *sgd)
            beside.backward(other, wanted, [] if bad else [[0, "inf"]])
            other.unscale_(beside.optimizer)
        unscaled.append(training.gradient())
        if way == "clip":
            torch.nn.utils.clip_grad_norm_(training.used, 1.0)
        if way == "value":
            torch.nn.utils.clip_grad_value_(training.used, 1.0)
        before = training.optimizer.steps
        scaler.step(training.optimizer)
        stepped.append(training.optimizer.steps - before)
        parameters.append(training.parameters())
        if way == "beside":
            other.step(beside.optimizer)
            other.update()
        scaler.update()
        scales.append(_scale(scaler))
    tensors = {"unscaled": torch.stack(unscaled), "parameters": torch.stack(parameters)}
    return {"scales": scales, "stepped": stepped, **tensors}


def twice(make: Any, start: Any, gradients: Any, poison: list[list[Any]]) -> dict[str, Any]:
    """In every step, whether a second unscale_ raised RuntimeError, and the gradient after it; and whether one after
    step() did."""
    scaler = make()
    training = _Training(start, 0.5, 0.0)
    raised, late, unscaled = [], [], []
    for wanted, bad in zip(gradients, poison, strict=True):
        training.backward(scaler, wanted, bad)
        scaler.unscale_(training.optimizer)
        raised.append(_raises(scaler, training.optimizer))
        unscaled.append(training.gradient())
        scaler.step(training.optimizer)
        late.append(_raises(scaler, training.optimizer))
        scaler.update()
    return {"raised": raised, "late": late, "unscaled": torch.stack(unscaled)}


def _raises(scaler: Any, optimizer: Any) -> int:
    try:
        scaler.unscale_(optimizer)
    except RuntimeError:
        return 1
    return 0
