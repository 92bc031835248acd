"""One stage of a small model in each rank, and one step of the learner's pipeline with it; tells what it did and kept.

Of pipeline and of zero_bubble, whose stages go backward in two calls. Runs in the box. It judges nothing: the exercise does, outside, by what is returned and by the trace.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from grader.ranks.model import compute

LOSSES = {"mse": functional.mse_loss, "cross_entropy": functional.cross_entropy}


class _Log:
    """What a stage did, and how many rows of its outputs were alive right after each forward pass.

    `waiting` are rows that have yet to go backward, `kept` those that are still there although they have. `given` is the
    first number of each row that went in, for each forward pass.
    """

    def __init__(self, micro_batch: int) -> None:
        self.micro_batch = micro_batch
        self.passes = ""
        self.waiting: list[int] = []
        self.kept: list[int] = []
        self.given: list[list[float]] = []
        self.outputs: list[_Output] = []
        self.collects = True

    def takes(self, x: Tensor) -> None:
        self.given.append(x.detach()[:, *[0] * (x.dim() - 1)].tolist())

    def made(self, output: _Output) -> None:
        output.number = self.passes.count("F")
        self.passes += "F"
        self.outputs.append(output)
        waiting, kept = self._alive()
        if kept > self.micro_batch and self.collects:
            gc.collect()  # automatic collection is off, and what only a cycle holds is garbage
            waiting, kept = self._alive()
            self.collects = kept <= self.micro_batch  # where it was of no use, it is too slow to go on with
        self.waiting.append(waiting)
        self.kept.append(kept)

    def left(self) -> int:
        """Rows of outputs that are alive when the step is over."""
        if sum(self._alive()) > self.micro_batch:
            gc.collect()
        return sum(self._alive())

    def _alive(self) -> tuple[int, int]:
        self.outputs = [output for output in self.outputs if output.alive()]
        kept = sum(output.rows for output in self.outputs if output.done)
        return sum(output.rows for output in self.outputs) - kept, kept


class _Output:
    """One output of the stage, without keeping its memory: views and detached tensors share it, a graph may hold it."""

    def __init__(self, tensor: Tensor) -> None:
        self.rows, self.done, self.number = len(tensor), False, 0
        self._handle = tensor.untyped_storage()._weak_ref()

    def alive(self) -> bool:
        return torch.UntypedStorage._new_with_weak_ptr(self._handle) is not None


class _Work(torch.autograd.Function):  # type: ignore[misc]
    """The identity, whose passes take virtual time for each row, and whose graph holds its output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: tuple[float, float], log: _Log) -> Tensor:
        compute(seconds[0] * len(x), f"F{log.passes.count('F')}")
        out = x.clone(memory_format=torch.contiguous_format)
        ctx.save_for_backward(out)
        ctx.seconds, ctx.log, ctx.output = seconds[1], log, _Output(out)
        log.made(ctx.output)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        compute(ctx.seconds * len(grad), f"B{ctx.output.number}")
        ctx.log.passes += "B"
        ctx.output.done = True
        return grad, None, None


class Stage(nn.Module):  # type: ignore[misc]
    """A linear layer, with tanh after it in all stages but the last."""

    def __init__(self, plan: dict[str, Any], weight: Tensor, bias: Tensor, log: _Log) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
        self._last, self._inner = plan["last"], plan["activation"]
        self._seconds, self._log = (plan["forward"], plan["backward"]), log

    def activation_shape(self, micro_batch_size: int) -> tuple[int, ...]:
        """The shape of what goes from any stage to the next, for a micro-batch of so many samples."""
        return (micro_batch_size, *self._inner)

    def forward(self, x: Tensor) -> Tensor:
        self._log.takes(x)
        y = functional.linear(x, self.weight, self.bias)
        y = y if self._last else torch.tanh(y)
        made: Tensor = _Work.apply(y, self._seconds, self._log)
        return made


class SplitStage(Stage):
    """The same layer, whose backward pass is two calls. What one of them needs is kept from forward() to the last."""

    def __init__(self, plan: dict[str, Any], weight: Tensor, bias: Tensor, log: _Log) -> None:
        super().__init__(plan, weight, bias, log)
        self._weight_seconds = plan["weight_pass"]
        self._going: dict[int, _Going] = {}  # by the output's identity

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def forward(self, x: Tensor) -> Tensor:
        self._log.takes(x)
        number = self._log.passes.count("F")
        compute(self._seconds[0] * len(x), f"F{number}")
        y = functional.linear(x, self.weight, self.bias)
        y = (y if self._last else torch.tanh(y)).requires_grad_()
        self._log.passes += "F"
        y.of_micro_batch = number
        self._going[id(y)] = _Going(x.detach(), y)
        return y

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def backward_input(self, output: Tensor, grad: Tensor) -> Tensor:
        """The gradient of the stage's input, from that of its output."""
        going = self._found(output, "backward_input")
        if going.grad is not None:
            raise RuntimeError("backward_input() was called twice for the same output")
        if not isinstance(grad, Tensor) or grad.shape != output.shape:
            got = f"of shape {tuple(grad.shape)}" if isinstance(grad, Tensor) else f"a {type(grad).__name__}"
            raise RuntimeError(f"backward_input() takes a gradient of shape {tuple(output.shape)}, not {got}")
        compute(self._seconds[1] * len(output), f"B{output.of_micro_batch}")
        self._log.passes += "B"
        going.grad = grad.detach().clone() if self._last else grad.detach() * (1 - output * output)
        return going.grad @ self.weight

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def backward_weight(self, output: Tensor) -> None:
        """Add the gradients of the stage's parameters to what is in their .grad."""
        going = self._found(output, "backward_weight")
        if going.grad is None:
            raise RuntimeError("backward_weight() was called before backward_input() for this output")
        compute(self._weight_seconds * len(output), f"W{output.of_micro_batch}")
        self._log.passes += "W"
        rows = going.grad.reshape(-1, going.grad.shape[-1])
        for parameter, grad in ((self.weight, rows.T @ going.x.reshape(len(rows), -1)), (self.bias, rows.sum(0))):
            parameter.grad = grad if parameter.grad is None else parameter.grad + grad
        del self._going[id(output)]

    def _found(self, output: Any, called: str) -> _Going:
        going = self._going.get(id(output))
        if going is None:
            over = isinstance(output, Tensor) and hasattr(output, "of_micro_batch")
            raise RuntimeError(
                f"{called}() was called for an output whose backward_weight() is done already"
                if over
                else f"{called}() takes the object that stage(x) returned: no copy, view or detached tensor of it"
            )
        return going


class _Going:
    """A micro-batch that has gone forward, and waits for its two backward passes."""

    def __init__(self, x: Tensor, output: Tensor) -> None:
        self.x, self.output = x, output
        self.grad: Tensor | None = None  # of the linear layer's output, once backward_input() has been called


def train(run: Callable[..., Any], plan: dict[str, Any], *tensors: Tensor) -> dict[str, Any]:
    """One step of the pipeline: what it returned, the gradients of this rank's stage, and what the stage did.

    `tensors` are the stage's weight and bias, the inputs and the targets.
    """
    return _trained(Stage, run, plan, *tensors)


def train_split(run: Callable[..., Any], plan: dict[str, Any], *tensors: Tensor) -> dict[str, Any]:
    """The same with a stage whose backward pass is two calls."""
    return _trained(SplitStage, run, plan, *tensors)


def _trained(
    make: type[Stage], run: Callable[..., Any], plan: dict[str, Any], weight: Tensor, bias: Tensor, inputs: Tensor,
    targets: Tensor,
) -> dict[str, Any]:  # fmt: skip
    log = _Log(len(inputs) // plan["micro_batches"])
    stage = make(plan, weight, bias, log)
    value = run(stage, inputs, targets, LOSSES[plan["loss"]], plan["micro_batches"])
    left = log.left() if not isinstance(value, Tensor) else 0
    did = {"left": left, "passes": log.passes, "waiting": log.waiting, "kept": log.kept, "given": log.given}
    return {"value": value, "type": type(value).__name__, "weight": stage.weight.grad, "bias": stage.bias.grad, **did}
