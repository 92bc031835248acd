"""trainer() on ranks 0 to T - 1, generator() on the others: post-training whose two halves do not wait for each other.

Generators write samples with params that may be a few versions old, and trainers take the first usable ones (Noukhovitch
et al. 2024, "Asynchronous RLHF"; Fu et al. 2025, "AReaL", section 5.1: samples carry the version that they were
generated with, and a bound holds their staleness).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.common import checks
from grader.exercises.rollout_sync import judging, order, params, timing
from grader.exercises.rollout_sync.policy import COLUMNS, DEPTH, SAMPLE, Given, Plan
from grader.ranks import faults
from grader.ranks.network import Network
from grader.ranks.program import Function, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Ranks

NETWORK = Network(alpha=10e-6, beta=1e-9)
SHARE = 0.2  # of the mean time of generate(): what optimizer_step() takes


def cases(draw: Draw) -> Iterator[Case]:
    """Every case of every check.

    In "old" one generator takes so long for a sample that others make several batches meanwhile, so that some of its
    samples are too old whatever the design is. In "death" the generator that is killed never ends the generate() in
    which it dies, so that it is inside it at that time.
    """
    yield _case(draw, "sync", 1, ((1, 3), (1, 3)), 4, 4, 0)
    yield _case(draw, "sync", 2, ((1, 2), (4, 8), (1, 3)), 3, 6, 0)
    yield _case(draw, "sync", 3, ((1, 10),), 3, 6, 0)
    yield _case(draw, "async", 1, ((1, 2),), 3, 4, 1)
    yield _case(draw, "async", 1, ((1, 3), (1, 10), (2, 4)), 4, 6, 1)
    yield _case(draw, "async", 2, ((1, 3), (7, 10), (1, 2)), 4, 8, 2)
    yield _case(draw, "async", 3, ((1, 10), (1, 4)), 4, 6, 1)
    yield _case(draw, "old", 1, ((1, 1.2), (9, 10), (1, 1.2)), 14, 4, 1)
    yield _case(draw, "old", 2, ((9, 10), (1, 1.2), (1, 1.3), (1, 1.2)), 14, 6, 2)
    for most, least, longest in ((1, 3, 5), (2, 5, 8), (3, 7, 10)):  # about one step too old, and some two
        yield _case(draw, "old", 1, ((1, 1.2), (least, longest), (1, 1.2), (least, longest)), 14, 5, most)
    yield _case(draw, "idle", 1, ((1, 10), (1, 10)), 5, 8, 1)
    yield _case(draw, "idle", 1, ((1, 2), (9, 10), (1, 3)), 6, 12, 1)
    yield _case(draw, "idle", 2, ((1, 2), (9, 10), (8, 10), (9, 10)), 5, 16, 3)  # three need few versions, one all
    yield _case(draw, "death", 1, ((1, 3), (1, 3), (1, 3)), 3, 6, 1, (3, 1, 0.5))
    yield _case(draw, "death", 1, ((2, 3), (1, 2)), 3, 4, 2, (1, 2, 7.0))
    yield _case(draw, "death", 1, ((2, 3), (2, 3), (2, 3)), 2, 12, 1, (3, 2, 7.5))
    yield _case(draw, "death", 1, ((1, 3), (1, 4), (1, 3)), 3, 6, 1, (2, 2, 500.0))
    yield _case(draw, "death", 2, ((1, 3), (1, 4), (1, 3)), 3, 6, 3, (4, 2, 400.0))
    yield _case(draw, "death", 2, ((1, 3), (1, 3)), 3, 4, 0, (2, 1, 20.0))
    yield _case(draw, "death", 1, ((1, 2), (1, 2), (1, 2)), 6, 8, 3, (3, 2, 5.0))  # many new prompts are left


def _case(
    draw: Draw, group: str, trainers: int, seconds: Sequence[tuple[float, float]], steps: int, batch: int,
    max_staleness: int, death: tuple[int, int, float] = (-1, 0, 0.0),
) -> Case:  # fmt: skip
    """One run. `seconds`: for each generator, the least and the most that generate() takes; `death`: who dies, in which
    of its generate() calls, and at what time."""
    label = f"T = {trainers}, {len(seconds)} generator{'s' * (len(seconds) > 1)}, batch {batch}, max_staleness {max_staleness}"
    if death[0] >= 0:
        label += f", rank {death[0]} killed in its {('first', 'second')[death[1] - 1]} generate, at {death[2]:g} s"
    random = draw.generator(f"{group} {label}")
    times = tuple(tuple(random.uniform(low, high, steps * batch).round(3).tolist()) for low, high in seconds)
    fastest = min(math.fsum(each) / len(each) for each in times)
    size = int(random.integers(4000, 4200)) if group == "idle" else int(random.integers(500, 600))
    angles = tuple(random.uniform(0.2, 2.9, DEPTH).tolist())
    plan = Plan(
        trainers, len(seconds), steps, batch, max_staleness, times, round(SHARE * fastest, 3), angles, 1.0, *death
    )
    start = random.normal(0, 0.5, size).astype(np.float32)
    arguments = tuple((plan.told(), Strided.of(start), _notes(plan, rank)) for rank in range(plan.ranks))
    killed = (faults.parse(f"kill:{death[0]}@t={death[2]}", plan.ranks),) if death[0] >= 0 else ()
    return Case(
        group, label, arguments, network=NETWORK, by="post_train", expected=Given(plan, start), faults=killed,
        simulated=True,
    )  # fmt: skip


def _notes(plan: Plan, rank: int) -> list[Strided]:
    """Empty, for the harness: see there. A generator may call generate() several times as often as there are prompts."""
    count = Strided.of(np.zeros((), np.int64))
    if rank >= plan.trainers:
        return [count, Strided.of(np.zeros((3 * plan.prompts + 20, 2 + DEPTH + SAMPLE)))]
    taken = np.zeros((plan.steps, plan.batch // plan.trainers, COLUMNS))
    return [count, Strided.of(np.zeros((plan.steps, DEPTH))), Strided.of(taken)]


EXERCISE = Exercise(
    name="rollout_sync",
    chapter="18",
    title="Post-training with trainers and generators that do not wait for each other",
    minutes=90,
    difficulty=3,
    world=Ranks(
        (
            Function("trainer", ("params", "optimizer_step", "steps", "batch", "max_staleness", "generators")),
            Function("generator", ("params", "generate", "trainers")),
        ),
        cases,
        limits=checks.TRAINING,
    ),
    cost="seconds",
    checks=(
        Check(
            "final", "Every trainer returns version `steps`, and each version is the trainers' mean", 3, params.final
        ),
        Check("once", "Each prompt is used exactly once, and none beyond the last is generated", 3, judging.once),
        Check("samples", "Samples and logprobs are the bits that generate returned, together", 3, judging.samples),
        Check("version", "A sample's version is that of the params it was generated with", 3, judging.version),
        Check("sync", "max_staleness 0 is the synchronous loop", 4, params.sync),
        Check("stale", "No sample is too old; it is generated again with newer params", 4, judging.stale),
        Check("first", "A step uses the first usable samples by completion", 4, order.first),
        Check("order", "Prompts are handed out in order, those to be generated again first", 2, order.handed_out),
        Check("idle", "No generator is outside generate for more than 10 % of the time", 4, timing.idle),
        Check("bytes", "Each version is sent at most once to each generator", 3, timing.sent),
        Check("death", "A generator that dies loses no prompt and stops nobody", 5, judging.death),
    ),
)
