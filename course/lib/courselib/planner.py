"""What a 3D-parallel training run needs and takes, plan by plan, under the cost model of the exercise parallel_plan.

    found = best(model, cluster)
    found.plan, found.seconds, found.parts["bubble"], found.memory

The model's terms are in the exercise's statement; sources are in `grader.exercises.parallel_plan.costs`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from grader.exercises.parallel_plan import costs
from grader.exercises.parallel_plan.costs import Plans
from grader.planning import ClusterSpec, ModelSpec, Plan


@dataclass(frozen=True)
class Planned:
    """A plan, its bytes on the fullest device (states, activations) and the seconds of one step, in all and by part."""

    plan: Plan
    states: float
    activations: float
    parts: dict[str, float]

    @property
    def memory(self) -> float:
        return self.states + self.activations

    @property
    def seconds(self) -> float:
        return sum(self.parts.values())


def judged(model: ModelSpec, cluster: ClusterSpec, plan: Plan) -> Planned:
    """What `plan` needs and takes. Raises ValueError, with the rule that it breaks, for a plan that is not legal."""
    broken = costs.illegal(model, cluster, plan)
    if broken:
        raise ValueError(f"not a legal plan: {broken}")
    one = Plans.one(plan)
    memory, seconds = costs.memory(model, cluster, one), costs.seconds(model, cluster, one)
    parts = {name: float(column[0]) for name, column in asdict(seconds).items()}
    return Planned(plan, float(memory.states[0]), float(memory.activations[0]), parts)


def best(model: ModelSpec, cluster: ClusterSpec, **fixed: int | bool) -> Planned:
    """The fastest legal plan that fits, among those with the `fixed` fields. Raises ValueError if none fits."""
    plans = costs.legal(model, cluster)
    times = costs.seconds(model, cluster, plans).all
    allowed = costs.memory(model, cluster, plans).all <= cluster.memory
    for name, value in fixed.items():
        allowed &= getattr(plans, name) == value
    if not allowed.any():
        raise ValueError(f"no legal plan fits into {cluster.memory / 1e9:g} GB a device with {fixed or 'anything'}")
    return judged(model, cluster, plans[int(np.where(allowed, times, np.inf).argmin())])


def counted(model: ModelSpec, cluster: ClusterSpec) -> tuple[int, int]:
    """How many plans are legal, and how many of them fit."""
    plans = costs.legal(model, cluster)
    return len(plans.dp), int((costs.memory(model, cluster, plans).all <= cluster.memory).sum())


def parameters(model: ModelSpec) -> int:
    """The model's parameters as the cost model counts them: 12 h² a layer, and the embedding."""
    return costs.parameters(model)


def useful_flops(model: ModelSpec) -> float:
    """Floating-point operations of one step without recomputing: three forward passes, and the output layer."""
    tokens = model.batch * model.sequence
    layers = model.layers * tokens * (24 * model.hidden**2 + 4 * model.sequence * model.hidden)
    return 3.0 * layers + 6.0 * tokens * model.hidden * model.vocabulary
