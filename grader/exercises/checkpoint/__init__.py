"""save(), load_latest() and AsyncCheckpointer: checkpoints that outlive SIGKILL, a power cut, and damaged files.

An atomic write is a temporary file, fsync, rename (rename(2), fsync(2)); what file systems do without is told by Pillai
et al. 2014 (*All File Systems Are Not Created Equal*, sections 2 and 3). A checkpoint of several ranks is a two-phase
commit: all shards, then one marker (Gray 1978, *Notes on Data Base Operating Systems*, section 5.8.3.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grader.exercise import Check, Draw, Exercise
from grader.exercises.checkpoint import crashes
from grader.ranks.program import Function, Limits, Strided
from grader.worlds.cases import Case
from grader.worlds.ranks import Crashes

PLACES = (0.5, 0.9, 0.25, 0.02, 0.75, 0.0)  # of a file, where a bit is flipped, beside one that is drawn


def cases(draw: Draw) -> Iterator[Case]:
    """One case is a series of lives, and the judge's is what became of the files."""
    base = Strided.of(draw.generator("base").uniform(-2, 2, (24, 16)).astype(np.float32))
    data = Strided.of(draw.generator("data").uniform(-2, 2, (24, 4)))
    place = float(draw.generator("place").uniform(0.3, 0.7))
    yield _case("kill", "killed, keeping 1", "killed", base, 1, 10, False)
    yield _case("kill", "killed, keeping 3", "killed", base, 3, 10, False)
    yield _case("power", "power cut", "killed", base, 3, 6, True)
    yield _case("power", "two ranks, power cut", "shards_without_power", base, 2)
    yield _case("damage", "damaged files", "damaged", base, Strided.of(np.array((place, *PLACES))))
    yield _case("rotation", "steps that go down", "rotated", base, Strided.of(np.array((100, 20, 30, 3))), 2)
    yield _case("rotation", "one kept", "rotated", base, Strided.of(np.array((100, 3))), 1)
    yield _case("rotation", "three kept", "rotated", base, Strided.of(np.array(range(1, 13))), 3)
    yield _case("state", "all kinds", "kept", base)
    yield _case("resume", "six steps", "resumed", data)
    yield _case("async", "training goes on", "behind", base, Strided.of(np.array((10,))), function="AsyncCheckpointer")
    yield _case("async", "two at once", "behind", base, Strided.of(np.array((10, 20))), function="AsyncCheckpointer")
    three = Strided.of(np.array((10, 20, 30)))
    yield _case("async", "two kept", "rotated_behind", base, three, 2, function="AsyncCheckpointer")
    yield _case("errors", "no folder", "failing", base, function="AsyncCheckpointer")
    yield _case("errors", "too large", "too_large", base, function="AsyncCheckpointer")
    yield _case("ranks", "two ranks", "shards", base, 2, 2, 4)
    yield _case("ranks", "two ranks, keeping 1", "shards", base, 2, 1, 2)
    yield _case("ranks", "three ranks", "shards", base, 3, 2, 1)
    yield _case("published", "two ranks", "behind_shards", base, function="AsyncCheckpointer")


def _case(group: str, label: str, by: str, *arguments: Any, function: str = "") -> Case:
    return Case(group, label, (arguments,), by=by, function=function)


EXERCISE = Exercise(
    name="checkpoint",
    chapter="11",
    title="Checkpoints that survive",
    minutes=90,
    difficulty=3,
    cost="tens of seconds",
    world=Crashes(
        (
            Function("save", ("directory", "step", "state")),
            Function("load_latest", ("directory",)),
            Function("AsyncCheckpointer", ("directory", "keep")),
        ),
        cases,
        limits=Limits(cpu_seconds=60, load_cpu_seconds=10, idle_seconds=30, silent_seconds=60, wall_seconds=60),
        imported=("torch._dynamo", "torch.optim", "torch.amp"),
    ),
    checks=(
        Check("kill", "SIGKILL before any file operation leaves a checkpoint that can be loaded", 4, crashes.kill),
        Check("power", "A power cut after save() has returned loses nothing", 2, crashes.power),
        Check("damage", "A flipped bit or a truncated file is noticed, and the one before is used", 3, crashes.damage),
        Check("rotation", "The newest are kept, also when their steps are smaller", 2, crashes.rotation),
        Check("state", "All kinds of tensors, numbers and nestings come back", 2, crashes.state),
        Check("resume", "A resumed training equals the undisturbed one bit for bit", 3, crashes.resume),
        Check("async", "Saved in the background, as it was when save() was called", 3, crashes.behind),
        Check("errors", "Errors in the background are raised", 1, crashes.errors),
        Check("ranks", "A checkpoint of shards is whole or is not there", 4, crashes.ranks),
        Check("published", "wait() returns when all ranks' shards are published", 2, crashes.published),
    ),
)
