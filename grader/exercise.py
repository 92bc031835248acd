"""An exercise, its checks and points, and the seam behind which its world is.

An exercise names one world: ranks, nodes, a job, Spark, Ray (see `worlds`). Opened for one submission, a world gives
the bench that the checks judge by; nothing else of it is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from grader.ranks.engines import Engines
from grader.ranks.program import HOST
from grader.submission import Submission
from grader.verdict import Diagnosis

T = TypeVar("T")
Cost = Literal["second", "seconds", "tens of seconds", "minute"]
SCHEDULES = 1  # the seed of the schedules by which all submissions are judged


@dataclass(frozen=True)
class Grading:
    """What a world is opened for: one submission, the machine's engines, and the seed of everything that is drawn.

    `engine` is auto, or the one that all ranks are to be run on; `device` is where the tensors of real ranks are.
    `replayed` is a schedule that was kept: what it was found by is played by it alone. With `alone` one check judges:
    what it does not ask for need not be run ahead. `schedules` is the seed of what is the same in every grading: when
    messages of nodes arrive, and when faults come. Only tests and measurements ask for others.
    """

    submission: Submission
    machine: Engines
    seed: int
    engine: str = "auto"
    replayed: dict[str, Any] | None = None
    alone: bool = False
    device: str = HOST
    schedules: int = SCHEDULES


class Opened(Protocol):
    """A world that was opened for one grading. Close it."""

    @property
    def engines(self) -> tuple[str, ...]:
        """The names of what it runs on, as verdicts tell them."""

    def prepare(self) -> Diagnosis | None:
        """Run what can be run ahead. A submission that cannot even be loaded gives the Diagnosis for every check."""

    def bench(self, check: str) -> Any:
        """What the judge of that check is called with."""

    def together(self, works: Sequence[Callable[[], T]]) -> Iterator[T]:
        """Do the works of several checks, side by side where the world can. Yields their results in order."""

    def output(self, picture: Any) -> str:
        """What the submission printed in the run that a check shows, for people."""

    def close(self) -> None:
        """End what still runs."""


class World(Protocol):
    """Where an exercise's submissions are run."""

    @property
    def names(self) -> tuple[str, ...]:
        """The functions and classes that the learner defines, by which a notebook's cell is known."""

    def open(self, grading: Grading) -> Opened:
        """The world for one submission."""


@dataclass(frozen=True)
class Check:
    """One thing that must be right. `judge` is called with its world's bench; it returns the picture of a run that went
    well, or raises Lost, or Unable."""

    name: str
    title: str
    points: float
    judge: Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Exercise:
    """One graded exercise. `minutes` and `difficulty` (1 to 3) are for people.

    `cost` is what one verdict takes (about a second, a few, ten to thirty, or most of a minute): it decides how often
    tests ask for one.
    """

    name: str
    chapter: str
    title: str
    minutes: int
    difficulty: int
    world: World
    checks: tuple[Check, ...]
    cost: Cost = "second"

    @property
    def max_points(self) -> float:
        return sum(check.points for check in self.checks)

    @property
    def function_names(self) -> tuple[str, ...]:
        return self.world.names


class Draw:
    """Fresh inputs: the same for the same seed, different for every label."""

    def __init__(self, seed: int) -> None:
        self._words = [seed >> 32 * place & 0xFFFFFFFF for place in range(max(1, -(-seed.bit_length() // 32)))]

    def generator(self, label: str) -> np.random.Generator:
        """That of numpy's default_rng([seed, *bytes of the label]), which looks at a list word by word."""
        return np.random.default_rng(np.array([*self._words, *label.encode()], np.uint32))
