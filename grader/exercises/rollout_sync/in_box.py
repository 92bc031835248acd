"""Calls the learner's trainer() on ranks 0 to T - 1 and generator() on the others, with a policy of the harness's own.

Runs in every rank. It notes what generate() and optimizer_step() are given and give, and judges nothing. The formulas
stand in policy.py, too, where the grading process computes them once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from grader.ranks.model import compute

submission: Any  # the learner's module
SAMPLE, DEPTH = 8, 8  # numbers in a sample; directions in which the policy moves
FOREVER = 1e6  # seconds: longer than any run, for the one that is killed while it generates


def post_train(
    trainer: Callable[..., Any], plan: dict[str, Any], params: torch.Tensor, notes: list[torch.Tensor]
) -> Any:
    """One run of post-training. `params`: (n,) float32, the same on all ranks.

    `notes` are this rank's, and are there also if it is killed. [0]: () int64, how many calls it made; [1]: float64, a
    row a call. On generators a row is the prompt, where `params` lies in the policy's directions, the sample and the
    logprob; on trainers the first part, and in [2] (steps, batch / T, 11): prompt, version, sample, logprob.
    Returns what a trainer returned, and whether the argument `params` is as it was.
    """
    rank, given = dist.get_rank(), params.clone()
    policy = _Policy(plan, len(params))
    if rank < plan["trainers"]:
        step = _step(policy, plan, notes)
        generators = list(range(plan["trainers"], dist.get_world_size()))
        got = trainer(given, step, plan["steps"], plan["batch"], plan["max_staleness"], generators)
    else:
        submission.generator(given, _generate(policy, plan, rank, notes), list(range(plan["trainers"])))
        got = None
    return [got.detach().clone() if isinstance(got, torch.Tensor) else got, bool(torch.equal(given, params))]


class _Policy:
    """What the params mean: where they lie in DEPTH directions decides every sample and its probability."""

    def __init__(self, plan: dict[str, Any], size: int) -> None:
        angles = torch.tensor(plan["angles"], dtype=torch.float64)[:, None]
        self.directions = torch.sin(angles * (torch.arange(size, dtype=torch.float64) + 1))  # (DEPTH, n)
        self.size = size

    def place(self, params: Any, what: str) -> torch.Tensor:
        """Where `params` lie: (DEPTH,) float64. Raises ValueError for what are no params."""
        if not isinstance(params, torch.Tensor) or params.shape != (self.size,) or params.dtype != torch.float32:
            got = (
                f"shape {tuple(params.shape)} and dtype {params.dtype}"
                if isinstance(params, torch.Tensor)
                else repr(params)[:60]
            )
            raise ValueError(f"{what} takes params of shape ({self.size},) and dtype torch.float32, but got {got}")
        return self.directions @ params.detach().double() * (2 / self.size)


def _phases(prompt: int) -> torch.Tensor:
    return torch.arange(1, SAMPLE + 1, dtype=torch.float64) * (prompt + 1) * 0.7548776662


def _sample(place: torch.Tensor, prompt: int) -> torch.Tensor:
    return torch.sin(place + _phases(prompt)).float()


def _logprob(place: torch.Tensor, prompt: int) -> float:
    return float((-torch.cos(2 * place + _phases(prompt)).mean()).float())


def _generate(policy: _Policy, plan: dict[str, Any], rank: int, notes: list[torch.Tensor]) -> Callable[..., Any]:
    count, rows = notes
    seconds, prompts = plan["seconds"][rank - plan["trainers"]], plan["steps"] * plan["batch"]
    dies_in = plan["dies_in"] if rank == plan["killed"] else 0

    def generate(params: torch.Tensor, prompt_id: int) -> tuple[torch.Tensor, float]:
        place, prompt, call = policy.place(params, "generate"), int(prompt_id), int(count)
        if call == len(rows):
            raise RuntimeError(
                f"generate was called over {call} times on this rank. There are only {prompts} prompts. Generate a "
                "prompt again only if its sample is older than max_staleness, or if its generator died."
            )
        if prompt < 0:
            raise ValueError(f"generate got prompt_id {prompt}, but ids count from 0")
        rows[call, 0] = prompt
        rows[call, 1 : 1 + DEPTH] = place
        count.add_(1)
        compute(FOREVER if call + 1 == dies_in else seconds[prompt % prompts], f"g{prompt}")
        sample, logprob = _sample(place, prompt), _logprob(place, prompt)
        rows[call, 1 + DEPTH : -1] = sample
        rows[call, -1] = logprob
        return sample, logprob

    return generate


def _step(policy: _Policy, plan: dict[str, Any], notes: list[torch.Tensor]) -> Callable[..., Any]:
    count, rows, taken = notes
    share = plan["batch"] // plan["trainers"]

    def optimizer_step(params: torch.Tensor, samples: Any) -> torch.Tensor:
        place, call, samples = policy.place(params, "optimizer_step"), int(count), list(samples)
        if call == plan["steps"]:
            raise RuntimeError(f"optimizer_step was called over {call} times on this rank, but steps is {call}")
        if len(samples) != share:
            raise ValueError(
                f"optimizer_step takes batch / T = {share} samples of each of the {plan['trainers']} trainers, but got "
                f"{len(samples)}"
            )
        rows[call] = place
        moved = torch.zeros(DEPTH, dtype=torch.float64)
        for number, (prompt, version, sample, logprob) in enumerate(samples):
            if not isinstance(sample, torch.Tensor) or sample.shape != (SAMPLE,) or sample.dtype != torch.float32:
                what = (
                    f"{tuple(sample.shape)}, {sample.dtype}" if isinstance(sample, torch.Tensor) else repr(sample)[:60]
                )
                raise ValueError(f"a sample is a tensor of shape ({SAMPLE},) and dtype torch.float32, not {what}")
            row = taken[call, number]
            row[0], row[1], row[-1] = int(prompt), int(version), float(logprob)
            row[2:-1] = sample.detach()
            ratio = (torch.tensor(_logprob(place, int(prompt)), dtype=torch.float64) - row[-1]).clamp(-1, 1).exp()
            moved += ratio * row[2:-1] * torch.sin(torch.tensor(1.3 * int(prompt) + 1, dtype=torch.float64))
        count.add_(1)
        compute(plan["step_seconds"], f"s{call}")
        change = plan["lr"] / share * (moved @ policy.directions)
        return (params.detach().double() + change).float()

    return optimizer_step
