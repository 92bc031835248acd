"""Trains a few parameters with the learner's ZeroOptimizer, and tells what they, the state and the gradients became.

Runs in every rank. It judges nothing: the exercise does, outside, by what is returned and by the trace.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from grader.ranks.model import compute

MARK = 0.001  # virtual seconds that begin a step: the trace is cut there
MOMENT = 0.0001  # virtual seconds before a look at the memory after the last step

_made: list[weakref.ref[Any]] = []  # every instance of the classes below, also copies and those of subclasses


def _remembered(base: Any) -> Any:
    def new(cls: Any, *_: Any, **__: Any) -> Any:
        made = object.__new__(cls)
        _made.append(weakref.ref(made))
        return made

    return type(base.__name__, (base,), {"__new__": new, "__module__": base.__module__})


CLASSES = {base.__name__: _remembered(base) for base in (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD)}


def train(make: Callable[..., Any], plan: dict[str, Any], start: torch.Tensor, gradients: torch.Tensor) -> Any:
    """Train by `plan`; `start` holds all parameters in a row, `gradients` such a row for every step."""
    with _Watch() if plan["stage"] == 2 else contextlib.nullcontext() as watch:
        return _train(make, plan, start, gradients, watch)


def _train(
    make: Callable[..., Any], plan: dict[str, Any], start: torch.Tensor, gradients: torch.Tensor, watch: _Watch | None
) -> Any:
    _made.clear()
    sizes = [int(torch.Size(shape).numel()) for shape in plan["shapes"]]
    parts = zip(start.clone().split(sizes), plan["shapes"], strict=True)
    parameters = [torch.nn.Parameter(part.clone().view(shape)) for part, shape in parts]
    keywords = {"stage": plan["stage"]} if plan["stage"] != 1 else {}
    optimizer = make(_given(plan, parameters), CLASSES[plan["optimizer"]], **keywords, **plan["options"])
    trained = [index for group in plan["groups"] for index in group["params"]]
    rows, held = [], 0
    for step, row in enumerate(gradients):
        compute(MARK)
        if plan["added"] and step == plan["added"]["before"]:
            _add(optimizer, _group(plan["added"], parameters))
            trained += plan["added"]["params"]
        for when, group, option, value in plan["changes"]:
            if step == when:
                optimizer.param_groups[group][option] = value
        wanted = [view.view(shape) for view, shape in zip(row.split(sizes), plan["shapes"], strict=True)]
        skipped = [index for when, index in plan["skipped"] if when == step]
        using = [index for index in trained if index not in skipped]
        if step == plan["discarded"]:
            _backward(parameters, [-3 * gradient for gradient in wanted], using)
        optimizer.zero_grad()
        for index in skipped:
            parameters[index].grad = None  # also where zero_grad() fills with zeros
        _backward(parameters, wanted, using)
        last = step == len(gradients) - 1
        before = [_weak(parameter.grad) for parameter in parameters if parameter.grad is not None and last]
        optimizer.step()
        rows.append(torch.cat([parameter.detach().reshape(-1) for parameter in parameters]))
        if last:
            if watch is not None:
                compute(MOMENT)  # the other ranks come to here, too: nobody's part of a collective is kept any more
            held = _held(before, parameters, watch, row)
            if held:
                gc.collect()
                held = _held(before, parameters, watch, row)
    if len(_made) > 1:
        gc.collect()
    state, elements = _state_size()
    told = {"state": state, "elements": elements, "instances": len(_made), "gradients": held}
    return {"parameters": torch.stack(rows), **told}


def _group(group: dict[str, Any], parameters: list[Any]) -> dict[str, Any]:
    return {"params": [parameters[index] for index in group["params"]], **group["options"]}


def _add(optimizer: Any, group: dict[str, Any]) -> None:
    """Add a group whose parameters can be read once. An error says so where they were read again."""
    once = _Once(group["params"])
    try:
        optimizer.add_param_group({**group, "params": once})
    except Exception as error:
        if once.ends > 1:
            vars(error)["in_call"] = (
                "add_param_group() read the `params` of the added group twice, and the second time it got nothing. They "
                "are an iterator, which can be read only once. Make a list of them first, and read only this list."
            )
        raise


class _Once(itertools.chain[Any]):
    """An iterator that counts how often it was at its end."""

    ends = 0

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except StopIteration:
            self.ends += 1
            raise


def _given(plan: dict[str, Any], parameters: list[Any]) -> Any:
    """What the constructor is given: groups, or as model.parameters() an iterator that can be read once."""
    if len(plan["groups"]) > 1:
        return [_group(group, parameters) for group in plan["groups"]]
    return (parameters[index] for index in plan["groups"][0]["params"])


def _backward(parameters: list[Any], gradients: list[Any], using: list[int]) -> None:
    torch.stack([(parameters[index] * gradients[index]).sum() for index in using]).sum().backward()


def _state_size() -> tuple[int, int]:
    """Bytes and elements of all state tensors of more than one element, of every instance that is still alive."""
    alive = [optimizer for made in _made if (optimizer := made()) is not None]
    tensors = [tensor for optimizer in alive for tensor in _tensors(list(optimizer.state.values()))]
    sizes = [(tensor.numel(), tensor.element_size()) for tensor in tensors if tensor.numel() > 1]
    return sum(count * width for count, width in sizes), sum(count for count, _ in sizes)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _weak(gradient: torch.Tensor) -> int:
    """A handle on a gradient's memory that does not keep it alive."""
    return int(gradient.untyped_storage()._weak_ref())


def _held(before: list[int], parameters: list[Any], watch: _Watch | None, row: torch.Tensor) -> int:
    """Bytes of gradients that are still there after a step: those of before it, what hangs at parameters now, and in
    any other memory the values of the rank's own gradients, `row`."""
    alive = [torch.UntypedStorage._new_with_weak_ptr(handle) for handle in before]
    now = [parameter.grad.untyped_storage() for parameter in parameters if parameter.grad is not None]
    held = {storage._cdata: storage.nbytes() for storage in (*alive, *now) if storage is not None}
    apart = {row.untyped_storage()._cdata, *held}
    return int(sum(held.values()) + (watch.holding(row.cpu().numpy(), apart) if watch else 0))


class _Watch(TorchDispatchMode):  # type: ignore[misc]
    """Knows all memory of tensors that was made in it, and finds what of it is alive and holds given values."""

    def __init__(self) -> None:
        super().__init__()
        self.handles: dict[int, int] = {}  # which do not keep the memory alive

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in _tensors(out):
            with contextlib.suppress(RuntimeError, NotImplementedError):  # it may have no memory of its own
                storage = tensor.untyped_storage()
                if storage._cdata not in self.handles:
                    self.handles[storage._cdata] = storage._weak_ref()
        return out

    def holding(self, values: Any, apart: set[int]) -> int:
        """Bytes of other memory than `apart` that hold one of these float32 values."""
        known, total = np.sort(values), 0
        for key, handle in list(self.handles.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(handle)
            if storage is None:
                torch.UntypedStorage._free_weak_ref(handle)
                del self.handles[key]
            elif key not in apart and (size := storage.nbytes()) and storage.data_ptr():
                here = storage.cpu()  # the storage itself, unless a GPU has it
                found = np.frombuffer(ctypes.string_at(here.data_ptr(), size), np.float32, size // 4)
                places = np.minimum(np.searchsorted(known, found), len(known) - 1)
                total += 4 * int((known[places] == found).sum())
        return total
