"""Gives gradients to a learner's TopKAllReduce, or trains with it, in every rank. Runs in the box; decides nothing."""

from __future__ import annotations

from typing import Any

import torch


def _told(found: Any) -> Any:
    """A copy of what was returned, or what it is if it is no tensor that can be compared."""
    if not isinstance(found, torch.Tensor):
        return "None" if found is None else f"a {type(found).__name__}"
    if found.layout != torch.strided:
        return "a sparse tensor"
    return found.detach().clone()


def reduce_all(make: Any, ratios: list[float], calls: list[list[Any]], one_tensor: bool) -> dict[str, Any]:
    """What each call returns, at once; a call is the number of an object, a name and a gradient. With `one_tensor` all
    gradients of a name lie in the same tensor, one after the other. `changed` are results that another call than the next
    for their name changed: the number of each, that of the first such call, and what it left."""
    objects = [make(ratio) for ratio in ratios]
    tensors = {name: torch.empty_like(gradient) for _, name, gradient in calls} if one_tensor else {}
    results: list[Any] = []
    changed: list[list[Any]] = []
    held: dict[tuple[int, str], tuple[int, Any]] = {}
    for number, (which, name, gradient) in enumerate(calls):
        held.pop((which, name), None)
        found = objects[which](name, tensors[name].copy_(gradient) if one_tensor else gradient)
        results.append(_told(found))
        for key, (earlier, tensor) in list(held.items()):
            if isinstance(results[earlier], torch.Tensor) and not torch.equal(tensor, results[earlier]):
                changed.append([earlier, number, _told(tensor)])
                del held[key]
        held[which, name] = number, found
    return {"results": results, "changed": changed}


def train(
    make: Any, ratio: float, start: Any, inputs: Any, targets: Any, names: list[list[Any]], rate: float, steps: int
) -> dict[str, Any]:
    """The parameters after so many steps of plain gradient descent on this rank's data."""
    compressed = make(ratio)
    parameters = start.clone()
    for _ in range(steps):
        gradient = inputs.T @ (inputs @ parameters - targets) / len(inputs)
        pieces = gradient.split([size for _, size in names])
        means = []
        for (name, _), piece in zip(names, pieces, strict=True):
            mean = compressed(name, piece.clone())
            if not isinstance(mean, torch.Tensor) or mean.layout != torch.strided or mean.shape != piece.shape:
                return {"parameters": f"{_shape(mean)} for a gradient of shape {tuple(piece.shape)}"}
            means.append(mean.detach().clone())
        parameters -= rate * torch.cat(means)
    return {"parameters": parameters}


def _shape(found: Any) -> str:
    if isinstance(found, torch.Tensor) and found.layout == torch.strided:
        return f"a tensor of shape {tuple(found.shape)}"
    return str(_told(found))
