"""Where tensors of ranks are to be, as `--device` names it, and why that cannot be."""

from __future__ import annotations

from grader.exercise import Draw, Exercise
from grader.ranks.engines import without_cuda
from grader.ranks.program import HOST
from grader.submission import BadRequest
from grader.worlds.ranks import Crashes, Ranks

DEVICES = (HOST, "cuda")


def refuse(device: str, engine: str = "auto") -> None:
    """Raise BadRequest for a device that is none, or that this machine or the engine has not."""
    if device not in DEVICES:
        raise BadRequest(f"no device is called {device!r}; choose from {', '.join(DEVICES)}")
    if device == HOST:
        return
    if engine == "sim":
        raise BadRequest(f"simulated ranks have their tensors in the host's memory: with --device {device}, leave out "
                         "--engine sim")  # fmt: skip
    why = without_cuda()
    if why:
        raise BadRequest(f"--device {device} needs a GPU, and {why}")


def refuse_world(device: str, exercise: Exercise) -> None:
    """Raise BadRequest for an exercise that has no ranks whose tensors could be on a GPU."""
    if device != HOST and not on_devices(exercise):
        raise BadRequest(f"--device {device} is for exercises of several ranks, and {exercise.name} is none")


def on_devices(exercise: Exercise) -> bool:
    """Whether tensors of an exercise's ranks can be on a GPU: not of those that are killed and started again, nor where
    a single rank computes with plain numbers, in a time that is limited."""
    world = exercise.world
    several = isinstance(world, Ranks) and any(case.ranks > 1 for case in world.cases(Draw(1)))
    return several and not isinstance(world, Crashes)
