"""run_zb_h1: one training step of a pipeline whose backward pass is cut in two, as ZB-H1 orders the parts.

Zero bubble (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2.2): the stage before waits only for the
gradient of the input (B); that of the weights (W) can wait until there is nothing else to do. With p stages and m
micro-batches a step takes m(F + B + W) + (p-1)(F + B - W) instead of (m + p - 1)(F + B + W), in 1F1B's memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.pipeline import IN_BOX, PARAMETERS, judging, step
from grader.exercises.pipeline.training import Plan, proportional
from grader.exercises.zero_bubble import schedule as schedule
from grader.ranks.network import Network
from grader.ranks.program import Function
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

NETWORK = Network(alpha=0.0, beta=0.0, eager_bytes=0)  # transfers take no time, but each waits for its receive


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check: those of "values" are for the numbers, of "schedule" for time and memory, of "long"
    and "alone" for the memory of a step whose length is no multiple of the stages, and of one stage.

    More micro-batches than stages, fewer, and one; one stage. Of the largest world a case has a twin on real processes:
    what is wrong for its values is seen before, where there are fewer ranks. What takes virtual time has none, because
    real processes would sleep so long.
    """

    def made(group: str, plan: Plan, engine: str = "sim", telling: bool = False) -> Case:
        return step(draw, "run_zb_h1", group, plan, engine, NETWORK, "train_split", telling)

    yield made("values", Plan(1, 3, 2, "cross_entropy", (4,), (5, 4)))
    yield made("values", Plan(2, 4, 3, "mse", (6,), (5, 4)))
    yield made("values", Plan(2, 5, 2, "mse", (3, 4), (5, 2)))
    yield made("values", Plan(3, 6, 2, "cross_entropy", (7,), (4, 5)))
    yield made("values", Plan(3, 1, 4, "mse", (6,), (6, 6)))
    yield made("values", Plan(4, 8, 2, "mse", (5,), (5, 5)), telling=True)
    yield made("values", Plan(4, 2, 3, "cross_entropy", (6,), (3, 4)), telling=True)
    for backward in (1.0, 1.5):
        for stages in (2, 3, 4):
            times = {"forward": 1.0, "backward": backward, "weight_pass": 1.0}
            yield made("schedule", Plan(stages, 2 * stages, 2, "mse", (6,), (5, 4), **times))
    yield made("alone", Plan(1, 4, 2, "mse", (6,), (5, 4), 1.0, 1.0, 1.0))
    yield made("long", Plan(4, 13, 1, "mse", (6,), (5, 4), 1.0, 1.0, 1.0))
    for stages in (2, 3):
        yield made("blind", Plan(stages, 4, 2, "mse", (5,), (5, 5)))
    yield made("real", Plan(3, 5, 2, "mse", (6,), (5, 4)), "gloo")


EXERCISE = Exercise(
    name="zero_bubble",
    chapter="16",
    title="A pipeline without most of its bubble: ZB-H1",
    minutes=75,
    difficulty=3,
    world=Ranks((Function("run_zb_h1", PARAMETERS),), cases, p2p_only=True, limits=checks.TRAINING, in_box=IN_BOX),
    checks=(
        Check("gradients", "The gradients of the whole model on the whole batch", 5, judging.gradients("values")),
        Check(
            "loss", "The mean loss as a float on the last stage, None elsewhere", 2, judging.loss("values", "schedule")
        ),
        Check(
            "blind", "Only the first stage reads inputs, only the last targets", 2, judging.blind("values", "schedule")
        ),
        Check("bubble", "The step takes at most m(F+B+W) + (p-1)(F+B-W), and 2 %", 6, schedule.bubble),
        Check("in_flight", "At most p - stage outputs wait for backward_input", 3, schedule.in_flight),
        Check("live", "At most p outputs wait for backward_weight", 4, schedule.live),
        Check("waited", "Every request is waited for", 2, judging.waited("values", "schedule")),
        Check("real", "On three real processes", 2, judging.gradients("real", proportional)),
    ),
)
