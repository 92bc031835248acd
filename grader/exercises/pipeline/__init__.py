"""run_gpipe and run_1f1b: one training step of a model whose layers are shared out over the ranks, stage by stage.

GPipe (Huang et al. 2019, section 2.2): all micro-batches go forward, then all backward. 1F1B (Narayanan et al. 2019,
PipeDream, section 3.2; with a flush: Narayanan et al. 2021, section 2.2): after a warm-up, one forward and one backward
in turn. Both stand still for (p-1)/(m+p-1) of the time, with p stages and m micro-batches; they differ in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.pipeline import judging
from grader.exercises.pipeline import schedule as schedule
from grader.exercises.pipeline.training import Given, Plan, proportional
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Function, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

IN_BOX = Path(__file__).with_name("in_box.py")
PARAMETERS = ("stage", "inputs", "targets", "loss_fn", "micro_batches")
NETWORK = Network(alpha=1e-4, beta=1e-7)  # next to nothing beside a forward pass of a second
TIMES = {"forward": 1.0, "backward": 2.0}


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check: those of "gpipe" and "1f1b" are for the values, of "... schedule" for time and memory.

    More micro-batches than stages, as many, fewer, and one; numbers of them that the stages do not divide.
    """
    for name in ("gpipe", "1f1b"):
        yield _case(draw, name, name, Plan(2, 4, 3, "mse", (6,), (5, 4), **TIMES))
        yield _case(draw, name, name, Plan(2, 5, 2, "mse", (3, 4), (5, 2), **TIMES))
        yield _case(draw, name, name, Plan(3, 6, 2, "cross_entropy", (7,), (4, 5), **TIMES))
        yield _case(draw, name, name, Plan(3, 1, 4, "mse", (6,), (6, 6), **TIMES))
        yield _case(draw, name, name, Plan(4, 8, 2, "mse", (5,), (5, 5), **TIMES))
        yield _case(draw, name, name, Plan(4, 2, 3, "cross_entropy", (6,), (3, 4), **TIMES))
        yield _case(draw, name, f"{name} schedule", Plan(2, 6, 2, "mse", (6,), (5, 4), **TIMES))
        yield _case(draw, name, f"{name} schedule", Plan(3, 7, 1, "mse", (6,), (5, 4), forward=1.0, backward=1.0))
        yield _case(draw, name, f"{name} schedule", Plan(4, 8, 2, "mse", (6,), (5, 4), **TIMES))
        yield _case(draw, name, f"{name} schedule", Plan(4, 3, 2, "mse", (6,), (5, 4), **TIMES))
        yield _case(draw, name, f"{name} schedule", Plan(4, 13, 1, "mse", (6,), (5, 4), forward=1.0, backward=3.0))
        for stages in (2, 3):
            yield _case(draw, name, "blind", Plan(stages, 4, 2, "mse", (5,), (5, 5), **TIMES))
        yield _case(draw, name, "real", Plan(3, 5, 2, "mse", (6,), (5, 4)), "gloo")


def _case(draw: Draw, name: str, group: str, plan: Plan, engine: str = "sim") -> Case:
    return step(draw, f"run_{name}", group, plan, engine, NETWORK)


def step(
    draw: Draw, function: str, group: str, plan: Plan, engine: str, network: Network, by: str = "train",
    telling: bool = True,
) -> Case:  # fmt: skip
    """One step of `function`, called by a function of the harness; `network` is a simulated one.

    In "blind" the inputs are not a number on all ranks but the first, and not even float32 (only their shape is valid),
    the targets on all but the last.
    """
    many = f"{plan.micro_batches} micro-batch{'es' * (plan.micro_batches > 1)}"
    label = f"{function} of {many} on {plan.stages} stage{'s' * (plan.stages > 1)}"
    generator = draw.generator(f"{group} {label} {plan.loss} {plan.rows} {plan.forward} {plan.backward}")

    def drawn(*shape: int) -> np.ndarray[Any, Any]:
        return generator.uniform(-1, 1, shape).astype(np.float32)

    sizes = [plan.sizes(rank) for rank in range(plan.stages)]
    weights = tuple(drawn(after, before) for before, after in sizes)
    biases = tuple(drawn(after) for _, after in sizes)
    inputs = drawn(plan.batch, *plan.activation[:-1], plan.features[0])
    targets = 2 * drawn(plan.batch, *plan.activation[:-1], plan.features[1])
    if plan.loss == "cross_entropy":
        targets = generator.integers(0, plan.features[1], plan.batch)
    blind = group == "blind"
    label += ", where only the first rank has inputs (on the others they are float64, and not a number)" * blind

    def told(rank: int) -> tuple[Any, ...]:
        seen = np.full(inputs.shape, np.nan) if blind and rank > 0 else inputs
        goals = np.full_like(targets, np.nan) if blind and rank < plan.stages - 1 else targets
        return plan.told(rank), *map(Strided.of, (weights[rank], biases[rank], seen, goals))

    arguments = tuple(told(rank) for rank in range(plan.stages))
    given = Given(plan, weights, biases, inputs, targets)
    network = network if engine == "sim" else ROUNDS
    return Case(group, label, arguments, function, engine, network, given, telling, by)


EXERCISE = Exercise(
    name="pipeline",
    chapter="08",
    title="A pipeline: GPipe and 1F1B",
    minutes=75,
    difficulty=3,
    world=Ranks(
        (Function("run_gpipe", PARAMETERS), Function("run_1f1b", PARAMETERS)),
        cases,
        limits=checks.TRAINING,
    ),
    checks=(
        Check("gpipe", "GPipe: the gradients of the whole model on the whole batch", 4, judging.gradients("gpipe")),
        Check("1f1b", "1F1B: the gradients of the whole model on the whole batch", 4, judging.gradients("1f1b")),
        Check("loss", "The mean loss as a float on the last stage, None elsewhere", 2, judging.loss("gpipe", "1f1b")),
        Check("blind", "Only the first stage reads inputs, only the last targets", 2, judging.blind("gpipe", "1f1b")),
        Check("gpipe_bubble", "GPipe waits (p-1)/(m+p-1) of the time", 3, schedule.bubble("gpipe")),
        Check("1f1b_bubble", "1F1B waits (p-1)/(m+p-1) of the time", 3, schedule.bubble("1f1b")),
        Check("gpipe_live", "GPipe: all forward, then all backward, m activations live", 2, schedule.all_forward_first),
        Check("1f1b_live", "1F1B: at most p - stage activations live", 4, schedule.live),
        Check("waited", "Every request is waited for", 2, judging.waited("gpipe", "1f1b")),
        Check("real", "Both on three real processes", 2, judging.gradients("real", proportional)),
    ),
)
