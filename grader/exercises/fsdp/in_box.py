"""Trains a small module with the learner's FullyShardedModel, and tells what came out and what memory it took.

Runs in every rank. It judges nothing: the exercise does, outside, by what is returned and by the trace.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from grader.ranks.model import compute
from grader.ranks.program import nested
from grader.ranks.sim.context import SimWork

MARK = 0.001  # virtual seconds that begin a step: the trace is cut there
MOMENT = 0.0001  # virtual seconds before a look at the memory

_EMPTY = [f"aten::{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")]

_watch: _Watch | None = None  # of this rank, while it is watched


# ---- the units, which are the module's direct children


class _Look(torch.autograd.Function):  # type: ignore[misc]
    """The identity, where the memory is looked at: in the forward pass and in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, unit: int) -> torch.Tensor:
        ctx.unit = unit
        _look(unit)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        _look(ctx.unit)
        return grad, None


def _look(unit: int) -> None:
    if _watch is not None:
        _watch.look(f"in the {_watch.stage}, in unit {unit}")


def _enter(stage: str) -> None:
    if _watch is not None:
        _watch.stage = stage


def _looked(x: torch.Tensor, unit: int) -> torch.Tensor:
    return x if _watch is None else _Look.apply(x, unit)


class _Linear(nn.Linear):  # type: ignore[misc]
    number = -1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _looked(super().forward(_looked(x, self.number)), self.number)


class _Block(nn.Module):  # type: ignore[misc]
    """A residual block of two linear maps, with a buffer that is saved and one that is not."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features, bias=False)
        self.register_buffer("scale", torch.ones(features))
        self.register_buffer("shift", torch.zeros(features), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale * self.down(torch.tanh(self.up(x))) + self.shift


class _Turned(_Block):
    """The block with its parameters registered in another order than they are used in."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__(features, hidden)
        self.up = self._modules.pop("up")  # behind `down`


class _Gain(nn.Module):  # type: ignore[misc]
    """One factor a feature, and a buffer of integers that counts forward passes where no unit goes forward twice."""

    counting: ClassVar[set[int]] = set()  # ranks on which it does

    def __init__(self, features: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))
        self.register_buffer("version", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() in self.counting:
            self.version.add_(1)
        return x * self.gain


class _Net(nn.Module):  # type: ignore[misc]
    """A stem, some units with connections around them, a head; a buffer of its own is added."""

    def __init__(self, units: list[nn.Module], features: int) -> None:
        super().__init__()
        self.middles = len(units) - 2
        self.stem = units[0]
        for number, unit in enumerate(units[1:-1]):
            self.add_module(f"middle{number}", unit)
        self.head = units[-1]
        self.register_buffer("offset", torch.zeros(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for number in range(self.middles):
            x = (x + getattr(self, f"middle{number}")(x)) / 2
        return self.head(x) + self.offset


def _unit(kind: str, *sizes: int) -> nn.Module:
    return {"linear": _Linear, "block": _Block, "turned": _Turned, "gain": _Gain, "tanh": nn.Tanh}[kind](*sizes)


def _module(spec: dict[str, Any], values: dict[str, torch.Tensor]) -> nn.Module:
    units = [_unit(*unit) for unit in spec["units"]]
    for number, unit in enumerate(units):
        if isinstance(unit, _Linear):
            unit.number = number
    if spec["skips"]:
        module: nn.Module = _Net(units, values["offset"].numel())
    else:
        module = nn.Sequential(*units)
        if "offset" in values:
            module.register_buffer("offset", torch.zeros_like(values["offset"]))
    if spec["double"]:
        module = module.double()
    with torch.no_grad():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            tensor.copy_(values[name])
    return module


# ---- training


def train(
    make: Any, spec: dict[str, Any], values: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor
) -> dict[str, Any]:
    """The outputs of every step, and what memory was seen; x and y are steps x batch x features."""
    global _watch
    _watch = _Watch(spec["allowed"], values, spec["names"]) if spec["allowed"] else None
    try:
        with _watch or contextlib.nullcontext():
            model = make(_module(spec, values))
            if _watch is not None:
                _watch.look("after the construction")
            trainer = _Trainer(model, spec)
            held = trainer.held()
            with _watch.after_collectives() if _watch is not None else contextlib.nullcontext():
                outputs = [trainer.step(inputs, targets) for inputs, targets in zip(x, y, strict=True)]
                evaluated = trainer.evaluate(x[0]) if _watch is not None else None
            told = {"outputs": torch.stack(outputs), "held": max(held, trainer.held()), "bare": trainer.bare}
            told |= {"bare_at": trainer.bare_at}
            told |= {"elements": sum(p.numel() for p in trainer.parameters)}
            told |= {"own": sum(p.numel() * p.element_size() for p in trainer.parameters)}
            if _watch is not None:
                told |= {"evaluated": evaluated} | _watch.told()
        return told
    finally:
        _watch = None


def save(
    make: Any, spec: dict[str, Any], values: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor
) -> dict[str, Any]:
    """The whole state before the first step and before the last, when buffers have counted some forward passes, and
    the outputs of every step."""
    model = make(_module(spec, values))
    first = _copied(model.full_state_dict())
    trainer = _Trainer(model, spec)
    outputs = [trainer.step(inputs, targets) for inputs, targets in zip(x[:-1], y[:-1], strict=True)]
    _Gain.counting.add(dist.get_rank())
    for _ in range(spec["evaluated"]):
        trainer.evaluate(x[0])
    _Gain.counting.discard(dist.get_rank())
    last = _copied(model.full_state_dict())
    outputs.append(trainer.step(x[-1], y[-1]))
    return {"first": first, "last": last, "outputs": torch.stack(outputs), "bare": trainer.bare}


def state_and_on(
    make: Any, spec: dict[str, Any], values: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor
) -> dict[str, Any]:
    """The outputs of every step, and what memory was seen: before a whole state that is not kept, and after it."""
    global _watch
    _watch = _Watch(spec["allowed"], values, spec["names"])
    try:
        with _watch:
            model = make(_module(spec, values))
            trainer = _Trainer(model, spec)
            outputs = [trainer.step(x[0], y[0])]
            before = _watch.told()["peak"]
            model.full_state_dict()
            outputs += [trainer.step(inputs, targets) for inputs, targets in zip(x[1:], y[1:], strict=True)]
        return {"outputs": torch.stack(outputs), "bare": trainer.bare, "before": before} | _watch.told()
    finally:
        _watch = None


class _Trainer:
    """SGD with momentum, as torch.optim's, on the shards: that takes a second to be imported in every box."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        self.model, self.lr, self.momentum = model, spec["lr"], spec["momentum"]
        self.parameters = list(model.parameters())
        self.speed: list[torch.Tensor | None] = [None] * len(self.parameters)
        self.bare = 0  # shards without a gradient after the step where most have none
        self.bare_at = -1  # the first step with such
        self.steps, self.dropped = 0, spec["dropped"]

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The outputs of a step. An error in the step with a forward pass more says so."""
        try:
            return self._step(inputs, targets)
        except Exception as error:
            if self.steps == self.dropped:
                vars(error)["in_call"] = (
                    f"That was in step {self.steps + 1}. At the start of this step, the caller called model(x) outside "
                    "torch.no_grad() and dropped the result. No backward pass followed. After such a call, the model must "
                    "work as before."
                )
            raise

    def _step(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        compute(MARK)
        for parameter in self.parameters:
            parameter.grad = None
        _enter("forward pass")
        if self.steps == self.dropped:
            self._outputs(inputs)
        out = self._outputs(inputs)
        told = out.detach().clone()
        _enter("backward pass")
        ((out - targets) ** 2).sum().div(len(inputs)).backward()
        del out
        self.model.finish_gradient_sync()
        if _watch is not None:
            _watch.look("after finish_gradient_sync()")
        bare = sum(p.grad is None and p.numel() > 0 for p in self.parameters)
        if bare and not self.bare:
            self.bare_at = self.steps
        self.bare = max(self.bare, bare)
        self.steps += 1
        self._update()
        return told

    def evaluate(self, inputs: torch.Tensor) -> torch.Tensor:
        """The outputs of a forward pass that no backward pass follows."""
        _enter("forward pass under torch.no_grad()")
        with torch.no_grad():
            return self._outputs(inputs).clone()

    def _outputs(self, inputs: torch.Tensor) -> Any:
        return self.model(inputs) if callable(self.model) else self.model.forward(inputs)

    def _update(self) -> None:
        for place, parameter in enumerate(self.parameters if self.lr else ()):
            if parameter.grad is not None:
                before = self.speed[place]
                now = parameter.grad.clone() if before is None else self.momentum * before + parameter.grad
                self.speed[place] = now
                with torch.no_grad():
                    parameter -= self.lr * now

    def held(self) -> int:
        """Bytes of the memory in which the shards lie."""
        storages = [parameter.untyped_storage() for parameter in self.parameters]
        return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


def _copied(state: Any) -> Any:
    if not isinstance(state, Mapping):
        return state
    return {str(name): _told(value) if isinstance(value, torch.Tensor) else value for name, value in state.items()}


def _told(tensor: torch.Tensor) -> Any:
    """A copy of a tensor; False for one whose memory was given back, which nobody can read and live."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    needed = (tensor.storage_offset() + last + 1) * tensor.element_size() if tensor.numel() else 0
    return tensor.detach().clone() if tensor.untyped_storage().nbytes() >= needed else False


# ---- memory


class _Watch(TorchDispatchMode):  # type: ignore[misc]
    """Knows every tensor's memory that was made, and looks which of it is alive and holds values of parameters.

    So it does not matter by which collective, or into which tensors, a rank gathers what is not its own. Parameters
    must keep the values that they have at the start.
    """

    def __init__(self, allowed: int, values: dict[str, torch.Tensor], names: list[list[str]]) -> None:
        super().__init__()
        self.allowed = allowed
        rows = [np.concatenate([values[name].numpy().reshape(-1) for name in unit] or [[]]) for unit in names]
        units = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        order = np.argsort(row := np.concatenate(rows).astype(np.float32))
        self.known, self.unit = row[order], units[order]
        self.sizes = np.bincount(units, minlength=len(rows))
        self.handles: dict[int, int] = {}  # which do not keep the memory alive
        self.stage = ""  # of the training
        self.inside = self.gathered = (0, "", 0)  # the most that was seen, where, and how many units were there whole

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._schema.name in _EMPTY:
            out.zero_()  # what was freed before may still stand in it
        for tensor in nested(out, torch.Tensor):
            with contextlib.suppress(RuntimeError, NotImplementedError):  # it may have no memory of its own
                storage = tensor.untyped_storage()
                if storage._cdata not in self.handles:
                    self.handles[storage._cdata] = storage._weak_ref()
        return out

    def look(self, where: str) -> None:
        """Note it if too much of the parameters is alive; the first time is kept."""
        self.inside = self._more(self.inside, where)

    @contextlib.contextmanager
    def after_collectives(self) -> Iterator[None]:
        """Look wherever a collective is over, too: between two units, more of them may be gathered."""
        watch: _Watch = self
        group: Any = dist.distributed_c10d._get_default_group()
        join = group._join

        class Looked(SimWork):  # no wrapper of one request: that would be a cycle, which keeps what was gathered
            def wait(self, timeout: Any = None) -> bool:
                name = self._op.payload.name
                done = super().wait(timeout)
                watch._look_between(name)
                return done

        def joined(part: Any) -> Any:
            work = join(part)
            work.__class__ = Looked
            return work

        group._join = joined
        try:
            yield
        finally:
            del group._join

    def _look_between(self, name: str) -> None:
        if self.stage:
            found = self._more(self.gathered, f"in the {self.stage}, after {name}")
            if found[2] > 2:  # fewer may lie there twice, until they are where they belong
                self.gathered = found

    def told(self) -> dict[str, Any]:
        """What was seen within units, if that is too much: it says best why."""
        peak, where, whole = self.inside if self.inside[0] > self.allowed else max(self.inside, self.gathered)
        return {"peak": peak, "where": where, "whole": whole}

    def _more(self, before: tuple[int, str, int], where: str) -> tuple[int, str, int]:
        if before[0] > self.allowed:
            return before
        compute(MOMENT)  # the other ranks come to here, too: nobody's part of a collective that is over is kept then
        found, whole = self._alive()
        if found > self.allowed:
            gc.collect()
            found, whole = self._alive()
        return max(before, (found, where, whole))

    def _alive(self) -> tuple[int, int]:
        """Bytes that are alive and hold values of parameters, and how many units are there whole."""
        held = []
        for key, handle in list(self.handles.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(handle)
            if storage is None:
                torch.UntypedStorage._free_weak_ref(handle)
                del self.handles[key]
            elif storage.device.type == "cpu" and storage.nbytes() and storage.data_ptr():
                held.append(storage)
        if sum(storage.nbytes() for storage in held) <= self.allowed:  # whatever they hold
            return 0, 0
        total, seen = 0, np.zeros(len(self.known), bool)
        for storage in held:
            data, size = ctypes.string_at(storage.data_ptr(), storage.nbytes()), storage.nbytes()
            total += self._matching(np.frombuffer(data, np.float32, size // 4), seen)
            total += self._matching(np.frombuffer(data, np.float64, size // 8), seen)
        there = np.bincount(self.unit[seen], minlength=len(self.sizes))
        return total, int(((self.sizes > 0) & (there >= 0.95 * self.sizes)).sum())

    def _matching(self, found: np.ndarray[Any, Any], seen: np.ndarray[Any, Any]) -> int:
        places = np.minimum(np.searchsorted(self.known, found), len(self.known) - 1)
        same = self.known[places] == found
        seen[places[same]] = True
        return int(same.sum()) * found.itemsize
