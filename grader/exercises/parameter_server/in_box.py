"""Calls the learner's serve() on rank 0 and work() on the workers, and notes the parameters that each gradient is of.

Runs in every rank. It judges nothing: the exercise does, outside, by what is noted and by the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from grader.ranks.model import compute

submission: Any  # the learner's module
Gradient = Callable[[torch.Tensor], torch.Tensor]


def train(
    serve: Callable[..., Any],
    plan: dict[str, Any],
    parameters: torch.Tensor | None,
    targets: torch.Tensor | None,
    scale: torch.Tensor | None,
    given: torch.Tensor | None,
    count: torch.Tensor,
) -> None:
    """One training. Only the server has `parameters`; the others are the worker's.

    In `given` it leaves the parameters of each of its gradients, as many as `count` says: also when it is killed.
    """
    rank = dist.get_rank()
    if parameters is not None:
        serve(parameters, list(plan["workers"]), plan["steps"], plan["lr"], plan["max_staleness"])
    elif targets is not None and scale is not None and given is not None:
        work = submission.work
        work(rank, _gradient(plan["seconds"][str(rank)], targets, scale, given, count), plan["steps"])


def _gradient(
    seconds: float, targets: torch.Tensor, scale: torch.Tensor, given: torch.Tensor, count: torch.Tensor
) -> Gradient:
    """gradient_fn of one worker: of scale/2 |parameters - target|^2, with another target for every mini-batch."""

    def gradient_fn(parameters: torch.Tensor) -> torch.Tensor:
        call = int(count)
        if parameters.shape != scale.shape or parameters.dtype != scale.dtype:
            has = f"shape {tuple(parameters.shape)} and dtype {parameters.dtype}"
            raise ValueError(
                f"gradient_fn takes the parameters, of shape {tuple(scale.shape)} and dtype {scale.dtype}, but got {has}"
            )
        if call == len(given):
            raise RuntimeError(
                f"gradient_fn was called over {call} times. Return after `steps` accepted gradients. Refuse one only if "
                "its age exceeds max_staleness. Compute the next one on fresh parameters."
            )
        given[call] = parameters.detach()
        count.add_(1)
        compute(seconds)
        return scale * (given[call] - targets[call])

    return gradient_fn
