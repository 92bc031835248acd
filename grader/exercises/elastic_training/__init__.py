"""A script for torchrun: data parallel training that goes on where it was when the agent restarts all its workers.

The agent restarts every worker when one is gone, and loads nothing for them (torch documentation, *torchrun (Elastic
Launch)*, section *Important notices*): model, optimizer, position in the epoch and order of the rows are the script's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import torchrun
from grader.exercises.elastic_training import lives
from grader.ranks.program import Limits, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Crashes

ROWS, FEATURES, EPOCHS, BATCH = 48, 6, 3, 4


def cases(draw: Draw) -> Iterator[Case]:
    """The same job undisturbed, with ranks killed between steps and at final.pt, and in the middle of checkpoints."""
    generator = draw.generator("data")
    x = generator.standard_normal((ROWS, FEATURES)).astype(np.float32)
    y = (x @ generator.standard_normal((FEATURES, 1)) + 0.1).astype(np.float32)
    first, second = (int(number) for number in draw.generator("when").integers(4, 6, 2))
    yield _case("job", "undisturbed", x, y, [])
    yield _case("job", "between steps", x, y, [["line", 1, first], ["line", 0, second], ["final", -1, 1]])
    inside = [["checkpoint", 0, number] for number in (2, 4, 1, 5, 3)]
    yield _case("job", "in a checkpoint", x, y, [*inside, ["between", 0, 1]])


def _case(group: str, label: str, x: Any, y: Any, kills: list[list[Any]]) -> Case:
    arguments = (Strided.of(x), Strided.of(y), EPOCHS, BATCH, kills)
    return Case(group, label, (arguments,), by="job")


EXERCISE = Exercise(
    name="elastic_training",
    chapter="11",
    title="A job that restarts",
    minutes=75,
    difficulty=3,
    cost="tens of seconds",
    world=Crashes(
        (),
        cases,
        limits=Limits(cpu_seconds=60, load_cpu_seconds=10, idle_seconds=60, silent_seconds=120, wall_seconds=120),
        imported=torchrun.IMPORTED,
        script="train",
    ),
    checks=(
        Check("epochs", "Undisturbed: each epoch trains on every row once", 2, lives.epochs),
        Check("resumes", "After a kill it goes on where it was", 4, lives.resumes),
        Check("rows", "No row skipped, none trained on twice", 3, lives.rows),
        Check("parameters", "The final parameters are the undisturbed job's", 4, lives.parameters),
        Check("checkpoint", "Killed in the middle of a checkpoint, it goes on all the same", 4, lives.checkpoint),
    ),
)
