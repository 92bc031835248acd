"""What is done with a learner's DistributedModel in every rank. Runs in the box; decides nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from grader.ranks.model import compute


class _Work(torch.autograd.Function):  # type: ignore[misc]
    """The identity, whose backward pass takes so many seconds of virtual time."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seconds: float) -> torch.Tensor:
        ctx.seconds = seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        compute(ctx.seconds)
        return grad, None


class _Layer(nn.Module):  # type: ignore[misc]
    """A residual block."""

    def __init__(self, features: int, hidden: int, seconds: float) -> None:
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features, bias=False)
        self.seconds = seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.down(torch.tanh(self.up(x)))
        return x + (_Work.apply(out, self.seconds) if self.seconds else out)


class _Net(nn.Module):  # type: ignore[misc]
    """Residual blocks, applied in the order of `plan`; the output is scaled by a parameter and by a buffer."""

    def __init__(self, features: int, hidden: list[int], seconds: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))
        self.register_buffer("scale", torch.ones(features))
        self.layers = nn.ModuleList([_Layer(features, size, seconds) for size in hidden])
        self.plan = list(range(len(hidden)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index in self.plan:
            x = self.layers[index](x)
        return self.gain * self.scale * x


def _build(make: Any, spec: dict[str, Any], values: dict[str, torch.Tensor]) -> tuple[nn.Module, Any]:
    """The rank's module with `values` in it, and the learner's model around it."""
    module = _Net(values["scale"].numel(), spec["hidden"], spec["seconds"]).to(values["scale"].dtype)
    if "shift" in values:
        module.register_buffer("shift", torch.zeros_like(values["shift"]), persistent=False)
    if spec["hook"] != 1:
        module.register_forward_hook(lambda _module, _given, out: spec["hook"] * out)
    for name, first in spec["tied"].items():
        module.get_submodule(name).weight = module.get_submodule(first).weight
    _fill(module, values)
    for name in spec["frozen"]:
        module.get_submodule(name).requires_grad_(False)
    size = spec["bucket_bytes"]
    return module, make(module) if size is None else make(module, bucket_bytes=size)


def _fill(module: nn.Module, values: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            tensor.copy_(values[name])


def _tensors(named: Iterator[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in named}


def _gradients(module: nn.Module) -> dict[str, torch.Tensor | None]:
    return {name: None if p.grad is None else p.grad.detach().clone() for name, p in module.named_parameters()}


def _backward(model: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    out = model(x) if callable(model) else model.forward(x)
    ((out - y) ** 2).mean().backward()


def _sgd(parameters: list[nn.Parameter], speed: dict[torch.Tensor, torch.Tensor], lr: float, momentum: float) -> None:
    """A step of SGD with momentum, as torch.optim's: that takes a second to be imported in every box."""
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                before = speed.get(parameter)
                speed[parameter] = parameter.grad.clone() if before is None else momentum * before + parameter.grad
                parameter -= lr * speed[parameter]


def construct(make: Any, spec: dict[str, Any], values: dict[str, torch.Tensor]) -> dict[str, Any]:
    """What is in the module when the learner's model was built around it."""
    module, _ = _build(make, spec, values)
    return {**_tensors(module.named_parameters()), **_tensors(module.named_buffers())}


def train(
    make: Any, spec: dict[str, Any], values: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor
) -> dict[str, Any]:
    """The gradients of every step, and the parameters after the last; x and y are steps x batch x features."""
    module, model = _build(make, spec, values)
    if "own scale" in values:
        module.scale.copy_(values["own scale"])
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    speed: dict[torch.Tensor, torch.Tensor] = {}
    found = []
    for number, (inputs, targets) in enumerate(zip(x, y, strict=True), 1):
        module.plan = spec["plan"] if number == len(x) else spec["earlier"]
        compute(spec["marks"][0])
        for parameter in parameters:
            parameter.grad = None
        _backward(model, inputs, targets)
        compute(spec["marks"][1])
        model.finish_gradient_sync()
        compute(spec["marks"][2])
        found.append(_gradients(module))
        if spec["lr"]:
            _sgd(parameters, speed, spec["lr"], spec["momentum"])
        else:
            _fill(module, values)
    return {"gradients": found, "parameters": _tensors(module.named_parameters())}


def accumulate(
    make: Any, spec: dict[str, Any], values: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor
) -> dict[str, Any]:
    """The gradients of all micro-batches; all but the last are made under no_sync(), the first of them in another one
    inside where it is nested. Then a plain step."""
    module, model = _build(make, spec, values)
    module.plan = spec["earlier"]
    compute(spec["marks"][0])
    with model.no_sync():
        for number, (inputs, targets) in enumerate(zip(x[:-1], y[:-1], strict=True)):
            with model.no_sync() if spec["nested"] and number == 0 else contextlib.nullcontext():
                _backward(model, inputs, targets)
    compute(spec["marks"][1])
    module.plan = spec["plan"]
    _backward(model, x[-1], y[-1])
    model.finish_gradient_sync()
    compute(spec["marks"][2])
    found = _gradients(module)
    compute(spec["marks"][0])
    for parameter in module.parameters():
        parameter.grad = None
    _backward(model, x[-1], y[-1])
    compute(spec["marks"][1])
    model.finish_gradient_sync()
    compute(spec["marks"][2])
    return {"gradients": [found], "parameters": {}}
