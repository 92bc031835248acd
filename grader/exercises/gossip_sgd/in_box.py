"""Calls the learner's mix round after round, or trains a small model by their local_sgd. Runs in every rank.

It judges nothing: the exercise does, outside, by what is returned and by the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from grader.ranks.model import compute

MARK = 0.00137  # virtual seconds that a local step takes: the trace is cut there


def gossip(mix: Any, tensors: list[torch.Tensor], rounds: list[Any]) -> dict[str, Any]:
    """The tensors, all in a row, and the two lists after each round, which is this rank's neighbours and weights."""
    kept = [tensor.clone() for tensor in tensors]
    rows, told = [], []
    for neighbours, weights in rounds:
        told.append([list(neighbours), list(weights)])
        mix(list(kept), *told[-1])
        rows.append(_row(kept))
    return {"rows": rows, "told": told}


class Model(torch.nn.Module):  # type: ignore[misc]
    """Parameters that each step draws towards a point of its own, as the gradient of half the squared distance does."""

    def __init__(self, start: list[torch.Tensor], rate: float, targets: torch.Tensor, frozen: list[int]) -> None:
        super().__init__()
        self.layers = torch.nn.ParameterList(
            [torch.nn.Parameter(tensor.clone(), number not in frozen) for number, tensor in enumerate(start)]
        )
        self.told = {"rate": rate, "targets": targets, "rows": [], "steps": []}

    def local_step(self, step: Any) -> None:
        """One step of this rank alone."""
        compute(MARK)
        parameters, told = list(self.layers), self.told
        row = told["targets"][len(told["steps"]) % len(told["targets"])]
        told["steps"].append(step)
        told["rows"].append(_row(parameters))
        parts = row.split([parameter.numel() for parameter in parameters])
        with torch.no_grad():
            for parameter, target in zip(parameters, parts, strict=True):
                parameter.grad = parameter.detach() - target.view(parameter.shape)
                parameter.sub_(parameter.grad, alpha=told["rate"])


def train(
    local_sgd: Any,
    start: list[torch.Tensor],
    rate: float,
    targets: torch.Tensor,
    steps: int,
    period: int,
    elastic: Any,
    frozen: list[int],
) -> dict[str, Any]:
    """The parameters that each local step found, those in the end, and the numbers that the steps were given."""
    model = Model(start, rate, targets, frozen)
    if elastic is None:
        local_sgd(model, steps, period)
    else:
        local_sgd(model, steps, period, elastic=elastic)
    return {"rows": [*model.told["rows"], _row(list(model.layers))], "steps": model.told["steps"]}


def _row(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
