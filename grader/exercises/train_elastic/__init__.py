"""A script for torchrun whose number of nodes changes: a node is lost for good, another joins, and the result is the same.

torchrun with `--nnodes 1:2` goes on with the nodes that are left, and starts all workers anew when one joins (torch
documentation, *torchrun (Elastic Launch)*, sections *Membership Changes* and *Important notices*). What the rows, the
gradient and the number of steps then are, is the script's own affair.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import torchrun
from grader.exercises.train_elastic import judging
from grader.ranks.program import Limits, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Crashes

FEATURES, EPOCHS, WHOLE_STEPS = 5, 3, 4


def cases(draw: Draw) -> Iterator[Case]:
    """Six jobs. The global batch is odd, so that two ranks' parts differ, and each epoch's last step has one row. In one
    more, which is short, the global batch divides the rows."""
    generator = draw.generator("data")
    batch = int(generator.choice([5, 7, 9]))
    x = generator.standard_normal((batch * WHOLE_STEPS + 1, FEATURES)).astype(np.float32)
    y = (x @ generator.standard_normal((FEATURES, 1)) + 0.1).astype(np.float32)
    y += 0.5 * generator.standard_normal(y.shape).astype(np.float32)
    when = draw.generator("when")
    steps = WHOLE_STEPS + 1
    first, second, third = (int(number) for number in when.integers(steps + 1, 2 * steps - 1, 3))
    operation = int(when.integers(0, 1000))

    def case(group: str, label: str, nodes: int, loss: list[Any], join: int, late: bool = False) -> Case:
        """With `late`, another node joins when all steps are done, and before the final parameters are written."""
        arguments = (Strided.of(x), Strided.of(y), EPOCHS, batch, nodes, loss, join, late)
        return Case(group, label, (arguments,), by="job")

    yield case("alone", "one node", 1, [], -1)
    yield case("two", "two nodes", 2, [], -1)
    yield case("loss", "two nodes, one is lost", 2, ["line", first, 0], -1, late=True)
    yield case("other", "two nodes, the other one is lost", 2, ["other", first, 0], -1)
    yield case("join", "one node, another one joins", 1, [], second)
    yield case("both", "two nodes, one is lost, then one joins", 2, ["checkpoint", third, operation], third + 3)
    some = Strided.of(x[: 2 * batch]), Strided.of(y[: 2 * batch])
    yield Case("divided", "one node, whose G divides the rows", ((*some, 1, batch, 1, [], -1, False),), by="job")


EXERCISE = Exercise(
    name="train_elastic",
    chapter="11",
    title="A job that shrinks and grows",
    minutes=90,
    difficulty=3,
    cost="tens of seconds",
    world=Crashes(
        (),
        cases,
        limits=Limits(cpu_seconds=60, load_cpu_seconds=10, idle_seconds=120, silent_seconds=240, wall_seconds=240),
        imported=torchrun.IMPORTED,
        script="train_elastic",
    ),
    checks=(
        Check("rows", "Whatever happens, every epoch uses each row once", 3, judging.rows),
        Check("steps", "Every step has its rows, in every world", 3, judging.steps),
        Check("parameters", "The final parameters are those of one node alone", 4, judging.parameters),
        Check("loss", "A node is lost: the other one goes on alone, to the end", 3, judging.loss),
        Check("join", "A node joins: from then on two nodes train", 3, judging.join),
        Check("checkpoint", "It goes on from a whole checkpoint, whenever a node is killed", 4, judging.checkpoint),
    ),
)
