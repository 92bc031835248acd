"""The policy that is trained, computed in the grading process: the formulas of in_box.py in float64, with numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SAMPLE, DEPTH = 8, 8  # as in in_box.py
COLUMNS = 3 + SAMPLE  # of what optimizer_step is given: prompt, version, sample, logprob
NEAR = 1e-4  # between two places of the same version


@dataclass(frozen=True)
class Plan:
    """One run: ranks 0 to `trainers` - 1 train, `generators` more generate.

    `seconds[g][prompt]` is what generate() takes on the g-th generator, `step_seconds` what optimizer_step() takes.
    The generator of rank `killed` (-1: none) dies at `dies_at` seconds, inside its `dies_in`-th generate().
    """

    trainers: int
    generators: int
    steps: int
    batch: int
    max_staleness: int
    seconds: tuple[tuple[float, ...], ...]
    step_seconds: float
    angles: tuple[float, ...]
    lr: float = 1.0
    killed: int = -1
    dies_in: int = 0
    dies_at: float = 0.0

    @property
    def prompts(self) -> int:
        return self.steps * self.batch

    @property
    def ranks(self) -> int:
        return self.trainers + self.generators

    @property
    def of_generators(self) -> range:
        """Their ranks."""
        return range(self.trainers, self.ranks)

    def told(self) -> dict[str, Any]:
        """What the harness is told."""
        names = ("trainers", "steps", "batch", "max_staleness", "step_seconds", "lr", "killed", "dies_in")
        lists = {"seconds": [list(each) for each in self.seconds], "angles": list(self.angles)}
        return {**{name: getattr(self, name) for name in names}, **lists}


@dataclass(frozen=True)
class Given:
    """A run and the params of version 0, (n,) float32."""

    plan: Plan
    start: Array

    @property
    def directions(self) -> Array:
        """(DEPTH, n): what moves in a step."""
        angles = np.array(self.plan.angles)[:, None]
        return np.asarray(np.sin(angles * (np.arange(len(self.start)) + 1.0)))

    def place(self, params: Array) -> Array:
        """Where params lie: (DEPTH,)."""
        return np.asarray(self.directions @ params.astype(np.float64) * (2 / len(self.start)))

    def stepped(self, params: Array, shares: Sequence[Array]) -> Array:
        """The version after `params`, (n,) float64, of each trainer's samples, each (batch / T, COLUMNS)."""
        here = self.place(params)
        moved = np.zeros(DEPTH)
        for share in shares:
            for row in share:
                prompt = int(row[0])
                ratio = np.exp(np.clip(logprob(here, prompt) - row[-1], -1, 1))
                moved += ratio * row[2:-1] * np.sin(1.3 * prompt + 1) / len(share) / len(shares)
        return np.asarray(params.astype(np.float64) + self.plan.lr * (moved @ self.directions))

    def synchronous(self) -> Array:
        """The params after all steps of the synchronous loop."""
        plan, params = self.plan, self.start.astype(np.float64)
        for step in range(plan.steps):
            here = self.place(params)
            ids = range(step * plan.batch, (step + 1) * plan.batch)
            params = self.stepped(params, [np.array([[i, step, *sample(here, i), logprob(here, i)] for i in ids])])
        return params


def _phases(prompt: int) -> Array:
    return np.arange(1, SAMPLE + 1) * (prompt + 1) * 0.7548776662


def sample(place: Array, prompt: int) -> Array:
    """What generate() makes of a prompt, (SAMPLE,)."""
    return np.asarray(np.sin(place + _phases(prompt)), np.float32)


def logprob(place: Array, prompt: int) -> float:
    """Its logprob, a float32 number: of a density, so it may be above 0."""
    return float(np.float32(-np.cos(2 * place + _phases(prompt)).mean()))
