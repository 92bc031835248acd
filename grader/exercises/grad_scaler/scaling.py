"""What a loss scaler must do to given gradients: torch.amp.GradScaler's rules, with one decision for all ranks.

Dynamic loss scaling is that of Micikevicius et al. 2018 (Mixed precision training, section 3.2): halve the scale and
skip the step where a gradient is not finite, double it after so many steps in which all were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Poison = tuple[
    tuple[tuple[int, str], ...], ...
]  # for every step, where the scaled gradient is what; "none" is none at all


@dataclass(frozen=True)
class Settings:
    """A LossScaler's arguments."""

    init_scale: float = 2.0**16
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000

    def options(self) -> dict[str, Any]:
        """Those that are not the defaults, by name."""
        default = Settings()
        return {name: value for name, value in vars(self).items() if value != getattr(default, name)}


@dataclass(frozen=True, eq=False)
class Work:
    """What every rank trains on: its start [n], its gradients [steps, n] and how they are poisoned."""

    settings: Settings
    starts: Sequence[Array]
    gradients: Sequence[Array]
    poison: Sequence[Poison]
    how: tuple[str, ...]
    rate: float = 0.25
    momentum: float = 0.5

    @property
    def ranks(self) -> int:
        return len(self.starts)

    @property
    def steps(self) -> int:
        return len(self.how)


@dataclass
class Right:
    """What must come of it: scales has one more than there are steps; `bad` are the ranks with a bad gradient."""

    scales: list[float] = field(default_factory=list)
    stepped: list[bool] = field(default_factory=list)
    bad: list[list[int]] = field(default_factory=list)
    parameters: list[list[Array]] = field(default_factory=list)  # [step][rank]


def right(work: Work) -> Right:
    """All ranks skip a step where the scaled gradient of one of them is not finite."""
    found = Right([work.settings.init_scale])
    scale, good = np.float32(work.settings.init_scale), 0
    parameters = [start.astype(np.float64) for start in work.starts]
    momenta: list[Array | None] = [None] * work.ranks
    for step in range(work.steps):
        bad = [rank for rank in range(work.ranks) if not np.isfinite(scaled(work, rank, step, scale)).all()]
        found.bad.append(bad)
        found.stepped.append(not bad)
        if not bad:
            for rank in range(work.ranks):
                gradient = work.gradients[rank][step].astype(np.float64)
                if work.how[step] == "clip":
                    gradient = gradient * min(1.0, 1.0 / (float(np.linalg.norm(gradient)) + 1e-6))
                if work.how[step] == "value":
                    gradient = np.clip(gradient, -1, 1)
                before = momenta[rank]
                now = gradient if before is None else work.momentum * before + gradient
                momenta[rank] = now
                parameters[rank] = parameters[rank] - work.rate * now
            good += 1
            if good == work.settings.growth_interval:
                scale, good = np.float32(scale * work.settings.growth_factor), 0
        else:
            scale, good = np.float32(scale * work.settings.backoff_factor), 0
        found.scales.append(float(scale))
        found.parameters.append(list(parameters))
    return found


def scaled(work: Work, rank: int, step: int, scale: float | np.floating[Any]) -> Array:
    """The gradient that a rank's backward leaves."""
    with np.errstate(over="ignore"):
        gradient: Array = work.gradients[rank][step].astype(np.float32) * np.float32(scale)
    for place, what in work.poison[rank][step]:
        gradient[place] = 0 if what == "none" else float(what)
    return gradient


# ---- what others do to the scale


def _other_scales(
    work: Work, right: Right, after_a_skip: str, growth: bool = True, at_zero: int = 0, backoff: bool = True
) -> list[float]:
    """The scales where a skip does something else to the counter of good steps: "reset", "keep" or "count"."""
    settings = work.settings
    scale, good, found = settings.init_scale, at_zero, [settings.init_scale]
    for stepped in right.stepped:
        if not stepped:
            scale *= settings.backoff_factor if backoff else 1.0
            good = {"reset": at_zero, "keep": good, "count": good + 1}[after_a_skip]
        else:
            good += 1
        if growth and good >= settings.growth_interval:
            scale, good = scale * settings.growth_factor, 0
        found.append(scale)
    return found


def right_with(work: Work, growth_factor: float, backoff_factor: float) -> list[float]:
    """The scales with other factors than those that are given."""
    settings = replace(work.settings, growth_factor=growth_factor, backoff_factor=backoff_factor)
    return right(replace(work, settings=settings)).scales


def scale_habit(work: Work, right: Right, got: Sequence[float]) -> str:
    """The mistake that gives just these scales, in a sentence; empty for none that is known."""
    ways = (
        (_other_scales(work, right, "reset", growth=False), "The scale never grows. Multiply it by growth_factor "
         "after growth_interval steps without a skip."),
        (_other_scales(work, right, "keep"), "Set the count of good steps back to 0 after a skip: growth_interval "
         "good steps in a row are needed."),
        (_other_scales(work, right, "count"), "Skipped steps count as good steps. Count only steps that are made."),
        (_other_scales(work, right, "reset", backoff=False), "Multiply the scale by backoff_factor after a skip."),
        (_other_scales(work, right, "reset", at_zero=1), "The scale grows one step too early."),
        (_other_scales(work, right, "reset", at_zero=-1), "The scale grows one step too late."),
        (right_with(work, 2.0, 0.5), "The scale doubles and halves. Use growth_factor and backoff_factor instead."),
        ([work.settings.init_scale] * len(got), "The scale never changes. Change it in update()."),
    )  # fmt: skip
    return next((said for scales, said in ways if np.allclose(scales, got, rtol=1e-5)), "")
