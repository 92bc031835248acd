"""What is trained for zero_optimizer, and what must come of it: the update rules of the optimizers, in numpy.

SGD with momentum as PyTorch has it, Adam (Kingma and Ba 2015, algorithm 1), AdamW (Loshchilov and Hutter 2019,
algorithm 2). All act on each element alone, which is why their state can be cut anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Options = dict[str, float]


@dataclass(frozen=True)
class Group:
    """Some of the parameters, and the options that the group has of its own; `before` is the step it is added at."""

    params: tuple[int, ...]
    options: Options
    before: int = 0

    def told(self) -> dict[str, Any]:
        return {"params": list(self.params), "options": self.options, "before": self.before}


@dataclass(frozen=True)
class Plan:
    """One training: the parameters' shapes, the optimizer, and what happens at which step.

    `changes` are (step, group, option, value), set in param_groups; `skipped` are (step, parameter) without a gradient; at the step
    `discarded` a backward pass is thrown away by zero_grad().
    """

    optimizer: str
    options: Options
    stage: int
    shapes: tuple[tuple[int, ...], ...]
    groups: tuple[Group, ...]
    added: Group | None = None
    changes: tuple[tuple[int, int, str, float], ...] = ()
    skipped: tuple[tuple[int, int], ...] = ()
    steps: int = 10
    discarded: int = -1

    def told(self) -> dict[str, Any]:
        """What the harness is told."""
        return {
            "optimizer": self.optimizer, "options": self.options, "stage": self.stage,
            "shapes": [list(shape) for shape in self.shapes], "groups": [group.told() for group in self.groups],
            "added": self.added.told() if self.added else None, "changes": [list(change) for change in self.changes],
            "skipped": [list(pair) for pair in self.skipped], "discarded": self.discarded,
        }  # fmt: skip

    @property
    def sizes(self) -> list[int]:
        return [math.prod(shape) for shape in self.shapes]

    @property
    def slices(self) -> list[slice]:
        """Where each parameter stands in the row of all of them."""
        ends = np.cumsum(self.sizes)
        return [slice(int(end) - size, int(end)) for end, size in zip(ends, self.sizes, strict=True)]

    @property
    def bytes(self) -> int:
        """Of all parameters; a gradient has as many."""
        return 4 * sum(self.sizes)

    @property
    def state_bytes(self) -> int:
        """Of the unsharded optimizer: Adam keeps two moments of every element, SGD one momentum."""
        return self.bytes * (1 if self.optimizer == "SGD" else 2)


@dataclass(frozen=True)
class Given:
    """What the ranks start with: parameters in a row, and each rank's rows of gradients, [rank, step, element]."""

    plan: Plan
    start: Array
    gradients: Array

    @property
    def mean(self) -> Array:
        return np.asarray(self.gradients.mean(0))

    def rows(self, plan: Plan | None = None, gradients: Array | None = None) -> Array:
        """All parameters after every step of the unsharded optimizer: [step, element], float64."""
        return np.stack(list(_trained(plan or self.plan, self.start, self.mean if gradients is None else gradients)))


def _trained(plan: Plan, start: Array, gradients: Array, forgets: Collection[int] = ()) -> Iterator[Array]:
    """The parameters after every step. Before the steps in `forgets` all state is lost."""
    row = start.astype(np.float64)
    groups = [*plan.groups, *([plan.added] if plan.added else [])]
    options = [{**plan.options, **group.options} for group in groups]
    states: dict[int, dict[str, Any]] = {}
    for step, gradient in enumerate(gradients.astype(np.float64)):
        states = {} if step in forgets else states
        for when, number, option, value in plan.changes:
            if when == step:
                options[number][option] = value
        for group, chosen in zip(groups, options, strict=True):
            for index in group.params if step >= group.before else ():
                where = plan.slices[index]
                state = states.setdefault(index, {"step": 0, "m": 0.0, "v": 0.0})
                if (step, index) not in plan.skipped:
                    row[where] = _updated(plan.optimizer, chosen, state, row[where], gradient[where])
        yield row.copy()


def _updated(optimizer: str, options: Options, state: dict[str, Any], p: Array, g: Array) -> Array:
    """One parameter's values after one step; `state` is changed."""
    rate, decay = options["lr"], options.get("weight_decay", 0.01 if optimizer == "AdamW" else 0.0)
    if optimizer == "AdamW":
        p = p * (1 - rate * decay)
    else:
        g = g + decay * p
    state["step"] += 1
    if optimizer == "SGD":
        state["m"] = options["momentum"] * state["m"] + g
        return np.asarray(p - rate * state["m"])
    state["m"] = 0.9 * state["m"] + 0.1 * g
    state["v"] = 0.999 * state["v"] + 0.001 * g * g
    m, v = state["m"] / (1 - 0.9 ** state["step"]), state["v"] / (1 - 0.999 ** state["step"])
    return np.asarray(p - rate * m / (np.sqrt(v) + 1e-8))


def mistakes(given: Given) -> Iterator[tuple[Array, str]]:
    """What the parameters would be by each of the usual mistakes, and the sentence that names it."""
    plan, mean = given.plan, given.mean
    n = len(given.gradients)
    if plan.stage == 2 and n > 1:
        said = (
            "The parameters were stepped with the sum of the ranks' gradients. Divide that sum by the number of ranks."
        )
        yield given.rows(gradients=n * mean), said
    elif n > 1:
        said = "In stage 1 the gradients are averaged already, but they were {} once more. Step with p.grad as it is."
        yield given.rows(gradients=n * mean), said.format("summed over the ranks")
        yield given.rows(gradients=mean / n), said.format("divided by the number of ranks")
    gradients = mean.copy()
    if plan.discarded >= 0:
        gradients[plan.discarded] *= -2
        yield given.rows(gradients=gradients), "The gradients were accumulated: zero_grad() left the old ones there."
    said = "The gradients were accumulated over the steps: zero_grad() left the old ones there."
    yield given.rows(gradients=np.cumsum(gradients, 0)), said
    yield (
        np.stack(list(_trained(plan, given.start, mean, forgets=range(plan.steps)))),
        "Momentum and moments begin anew in every step: step with the same instances and the same tensors each time, "
        "and pass all options on.",
    )
    bare = tuple(replace(group, options={}) for group in plan.groups)
    if any(group.options for group in plan.groups):
        yield given.rows(replace(plan, groups=bare)), "Every group was trained with the same options: its own are lost."
    for option in dict.fromkeys(option for _, _, option, _ in plan.changes):
        said = f"The {option} that was set in param_groups had no effect: the next step must use it."
        yield given.rows(replace(plan, changes=tuple(one for one in plan.changes if one[2] != option))), said
    if plan.changes:
        said = "What was set in param_groups had no effect: the optimizer inside has groups of its own."
        yield given.rows(replace(plan, changes=())), said
    if plan.added:
        said = "The group that add_param_group() added is not trained."
        yield given.rows(replace(plan, added=replace(plan.added, before=plan.steps))), said
        said = "The group that add_param_group() added is trained without its own options."
        yield given.rows(replace(plan, added=replace(plan.added, options={}))), said
        said = (
            f"When a group was added, before step {plan.added.before + 1}, momentum and moments of the other groups were "
            "lost: they begin anew there. add_param_group() must keep the optimizer inside and its state."
        )
        yield np.stack(list(_trained(plan, given.start, mean, forgets=(plan.added.before,)))), said
    if plan.skipped:
        zeros = mean.copy()
        for step, index in plan.skipped:
            zeros[step, plan.slices[index]] = 0
        said = (
            "A parameter whose gradient is None was stepped with zeros, so momentum and weight decay moved it. Skip it."
        )
        yield given.rows(replace(plan, skipped=()), zeros), said
        old = mean.copy()
        for step, index in sorted(plan.skipped):
            old[step, plan.slices[index]] = old[step - 1, plan.slices[index]]
        said = "A parameter whose gradient is None was stepped with its gradient of an earlier step. Skip it instead."
        yield given.rows(replace(plan, skipped=()), old), said
        hidden = given.rows(replace(plan, skipped=()), zeros)
        for step, index in sorted(plan.skipped):
            where = plan.slices[index]
            hidden[step, where] = hidden[step - 1, where] if step else given.start[where]
        said = (
            "A parameter whose gradient is None was stepped with zeros in its shard, and only not copied back: once it "
            "has a gradient again, it goes to where the zeros have moved it. Leave its piece of the shard alone, too."
        )
        yield hidden, said
        every = tuple((step, index) for step, _ in plan.skipped for index in range(len(plan.shapes)))
        yield given.rows(replace(plan, skipped=every)), "One parameter without a gradient kept all from being stepped."
        zero = [
            (step, index)
            for step in range(plan.steps)
            for index in range(len(plan.shapes))
            if not mean[step, plan.slices[index]].any()
        ]
        if zero:
            said = (
                "A parameter whose gradient is all zeros was left alone. Leave one alone only if its gradient is None."
            )
            yield given.rows(replace(plan, skipped=(*plan.skipped, *zero))), said
