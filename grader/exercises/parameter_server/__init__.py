"""serve(parameters, workers, steps, lr, max_staleness) on rank 0 and work(rank, gradient_fn, steps) on the others.

A parameter server with bounded staleness (Li et al. 2014, "Scaling Distributed Machine Learning with the Parameter
Server", section 3; Ho et al. 2013, "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server").
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.parameter_server import judging, replayed
from grader.exercises.parameter_server.replayed import Given, Plan
from grader.ranks import faults
from grader.ranks.network import ROUNDS, Network
from grader.ranks.program import Function, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

QUICK = Network(alpha=1e-3)  # beside which a gradient takes long: 10 s and more
WITHOUT = 10_000  # a max_staleness that nothing reaches
LR = 0.1


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check. Workers are ranks 1 to n, in any order, but in `loss`, where one rank looks on."""
    yield _case(draw, "loss", 2, Plan((1,), (0,), 40, LR, WITHOUT), 170)
    yield _case(draw, "loss", 3, Plan((1, 2), (0, 0), 30, LR, 4), 190)
    yield _case(draw, "loss", 4, Plan((3, 1), (0, 0), 30, LR, WITHOUT), 250)
    for seconds in ((10, 10, 10), (10, 14, 23)):
        yield _case(draw, "updates", 4, Plan((1, 2, 3), seconds, 8, LR, WITHOUT), 150, QUICK)
    yield _case(draw, "updates", 3, Plan((1, 2), (10, 35), 9, LR, WITHOUT), 120, QUICK)
    yield _case(draw, "stale", 4, Plan((1, 2, 3), (10, 10, 10), 6, LR, 1), 210, QUICK)
    yield _case(draw, "stale", 4, Plan((1, 2, 3), (10, 47, 12), 8, LR, 3), 210, QUICK)
    yield _case(draw, "stale", 3, Plan((1, 2), (55, 10), 8, LR, 2), 180, QUICK)
    yield _case(draw, "stale", 3, Plan((1, 2), (10, 16), 8, LR, 1), 180, QUICK)  # some of rank 2's are refused
    yield _case(draw, "bound", 3, Plan((1, 2), (10, 10), 9, LR, 1), 150, QUICK)
    yield _case(draw, "bound", 4, Plan((1, 2, 3), (10, 10, 10), 7, LR, 2), 180, QUICK)
    yield _case(draw, "sync", 2, Plan((1,), (10,), 5, LR, 0), 60, QUICK)
    yield _case(draw, "sync", 3, Plan((1, 2), (10, 30), 6, LR, 0), 80, QUICK)
    yield _case(draw, "sync", 4, Plan((1, 2, 3), (30, 10, 17), 6, LR, 0), 110, QUICK)
    yield _case(draw, "slow", 3, Plan((1, 2), (80, 10), 8, LR, WITHOUT), 110, QUICK)
    yield _case(draw, "slow", 4, Plan((1, 2, 3), (10, 90, 10), 8, LR, WITHOUT), 120, QUICK)
    yield _case(draw, "death", 4, Plan((3, 1, 2), (10, 10, 10), 6, LR, WITHOUT, (2,)), 130, QUICK, ("kill:2@t=25",))
    yield _case(draw, "death", 4, Plan((3, 1, 2), (15, 10, 12), 5, LR, 0, (3,)), 130, QUICK, ("kill:3@t=28",))
    kills = "kill:1@t=3", "kill:3@t=43"
    yield _case(draw, "death", 4, Plan((1, 2, 3), (10, 10, 15), 6, LR, 2, (1, 3)), 150, QUICK, kills)
    kills = "kill:1@t=17", "kill:2@t=40"
    yield _case(draw, "death", 3, Plan((1, 2), (10, 25), 4, LR, WITHOUT, (1, 2)), 90, QUICK, kills)
    kills = "kill:1@t=18", "kill:2@t=20"  # both in the middle of round 2, for which nobody has sent a gradient
    yield _case(draw, "death", 3, Plan((1, 2), (10, 15), 3, LR, 0, (1, 2)), 90, QUICK, kills)
    plan = Plan((*range(1, 13),), (10,) * 12, 2, LR, WITHOUT, (12,))  # a number of two digits, each a worker's, too
    yield _case(draw, "death", 13, plan, 90, QUICK, ("kill:12@t=13",))
    yield _case(draw, "real", 4, Plan((1, 2, 3), (0, 0, 0), 6, LR, WITHOUT), 100, engine="gloo")
    yield _case(draw, "real", 4, Plan((1, 2, 3), (0, 0, 0), 4, LR, 0), 100, engine="gloo")


def _case(
    draw: Draw, group: str, ranks: int, plan: Plan, size: int, network: Network = ROUNDS,
    befalls: tuple[str, ...] = (), engine: str = "sim",
) -> Case:  # fmt: skip
    """One training of `size` parameters. The workers' optima differ, and so do their mini-batches'."""
    most = size // 2  # gradients of one worker: as many as there is room for, with refused ones
    label = f"{len(plan.workers)} worker{'s' * (len(plan.workers) > 1)}, max_staleness {plan.max_staleness}"
    if plan.killed:
        label += f", {' and '.join(f'rank {rank}' for rank in plan.killed)} killed"
    generator = draw.generator(f"{group} {label} {engine} {size}")
    start = generator.uniform(-4, 4, size).astype(np.float32)
    scale = {rank: generator.uniform(0.5, 1.5, size).astype(np.float32) for rank in plan.workers}
    centre = {rank: generator.uniform(-0.3, 0.3, size) for rank in plan.workers}
    apart = {rank: generator.normal(0, 0.6, (most, size)) for rank in plan.workers}
    targets = {rank: (centre[rank] + apart[rank]).astype(np.float32) for rank in plan.workers}
    arguments = [_arguments(plan, None, None, None, 0)] * ranks
    arguments[0] = _arguments(plan, start, None, None, 0)
    for rank in plan.workers:
        arguments[rank] = _arguments(plan, None, targets[rank], scale[rank], most)
    return Case(
        group, label, tuple(arguments), engine=engine, network=network, by="train",
        expected=Given(plan, start.astype(np.float64), scale, centre, targets),
        faults=tuple(faults.parse(text, ranks) for text in befalls),
    )  # fmt: skip


def _arguments(plan: Plan, start: object, targets: object, scale: np.ndarray | None, most: int) -> tuple[object, ...]:
    """What the harness is given on one rank: see there. The last two are empty, for its notes."""
    tensors = [Strided.of(value) if isinstance(value, np.ndarray) else None for value in (start, targets, scale)]
    notes = Strided.of(np.zeros((most, len(scale)), np.float32)) if scale is not None else None
    return plan.told(), *tensors, notes, Strided.of(np.zeros((), np.int64))


EXERCISE = Exercise(
    name="parameter_server",
    chapter="10",
    title="An asynchronous parameter server with bounded staleness",
    minutes=50,
    difficulty=3,
    world=Ranks(
        (
            Function("serve", ("parameters", "workers", "steps", "lr", "max_staleness")),
            Function("work", ("rank", "gradient_fn", "steps")),
        ),
        cases,
    ),
    checks=(
        Check("loss", "The loss falls under the bound, with one worker or two", 3, replayed.loss),
        Check("updates", "Every gradient is applied once, with lr, and none is lost", 3, replayed.updates),
        Check("sync", "max_staleness 0: rounds, each with the mean of one gradient a worker", 3, judging.sync),
        Check("stale", "No gradient is applied that is older than max_staleness", 4, judging.stale),
        Check("anew", "A refused gradient is computed anew: each worker gives all its steps", 3, judging.anew),
        Check("bound", "A gradient as old as max_staleness is not refused", 2, judging.bound),
        Check("slow", "A slow worker does not hold the others where the bound allows", 3, judging.slow),
        Check("death", "A worker that dies does not hang the server", 4, judging.death),
        Check("real", "On four real processes", 2, judging.real),
    ),
)
