"""What is trained for parameter_server, and which gradients are in parameters that someone had.

Gradients are random and fewer than the parameters have elements, so they are linearly independent: of any parameters
that were made by adding gradients to the first ones, least squares tells how much of each gradient is in them. That is
the server's history, whatever messages it was made of.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
NEAR = 0.02  # of a gradient times lr: float32 and the least squares lose a thousandth of that


@dataclass(frozen=True)
class Plan:
    """One training: who works, how long a gradient takes each of them, and who is killed in the middle of one."""

    workers: tuple[int, ...]
    seconds: tuple[float, ...]
    steps: int
    lr: float
    max_staleness: int
    killed: tuple[int, ...] = ()

    def told(self) -> dict[str, Any]:
        """What the harness is told."""
        seconds = {str(rank): seconds for rank, seconds in zip(self.workers, self.seconds, strict=True)}
        told = {name: getattr(self, name) for name in ("steps", "lr", "max_staleness")}
        return {"workers": list(self.workers), "seconds": seconds, **told}

    @property
    def live(self) -> tuple[int, ...]:
        """The workers that are never killed."""
        return tuple(rank for rank in self.workers if rank not in self.killed)


@dataclass(frozen=True)
class Given:
    """What the ranks start with; by worker, the curvatures of its quadratic, its centre and its mini-batches'."""

    plan: Plan
    start: Array
    scale: Mapping[int, Array]
    centre: Mapping[int, Array]
    targets: Mapping[int, Array]

    def gap(self, x: Array) -> float:
        """How far the workers' mean loss at `x` is above the least that there is."""
        scale = np.mean([self.scale[rank] for rank in self.plan.workers], 0)
        best = np.mean([self.scale[rank] * self.centre[rank] for rank in self.plan.workers], 0) / scale
        return float(0.5 * (scale * (x - best) ** 2).sum())


@dataclass(frozen=True)
class History:
    """All gradients that were computed, each the `index`-th of rank `owner`, and how much of each was applied.

    `seen[i, j]` is how much of gradient j is in the parameters that gradient i is of, `final[j]` how much is in what
    the server has in the end. `rest` and `final_rest` are what no gradient explains, in units of a usual gradient.
    """

    owner: tuple[int, ...]
    index: tuple[int, ...]
    seen: Array
    final: Array
    rest: Array
    final_rest: float

    def of(self, rank: int) -> list[int]:
        """The gradients of one worker, in order."""
        return [number for number, owner in enumerate(self.owner) if owner == rank]

    def name(self, number: int) -> str:
        """A gradient, for people: "rank 2's gradient 5", counted from 1."""
        return f"rank {self.owner[number]}'s gradient {self.index[number] + 1}"

    @property
    def strangers(self) -> list[int]:
        """The gradients that are of parameters which the server never had: its versions grow by whole gradients."""
        within = np.abs(self.seen) > NEAR
        whole = (np.abs(self.seen - within) < NEAR).all(1) & (self.rest < NEAR)
        order = [*sorted(np.flatnonzero(whole).tolist(), key=lambda number: within[number].sum())]
        grown = all(not (within[one] & ~within[other]).any() for one, other in itertools.pairwise(order))
        return [number for number in range(len(self.owner)) if not whole[number]] or ([] if grown else order[-1:])

    @property
    def applied(self) -> list[int]:
        """The gradients that the server has in the end."""
        return [number for number in range(len(self.owner)) if abs(self.final[number]) > NEAR]

    def ages(self) -> dict[int, int]:
        """The age at which each gradient was applied: how many were applied between its parameters and itself.

        Where the parameters that were seen leave the order open it is that in which the oldest is youngest: by due
        date, the parameters it is of (Jackson 1955).
        """
        within = np.abs(self.seen) > NEAR
        versions = [frozenset(np.flatnonzero(row).tolist()) for row in within]
        found: dict[int, int] = {}
        for version in sorted({*versions, frozenset(self.applied)}, key=len):
            for number in sorted(version - found.keys(), key=lambda number: len(versions[number])):
                found[number] = len(found) - len(versions[number])
        return found


def history(given: Given, noted: Mapping[int, Sequence[Array]], final: Array) -> History | None:
    """The history of the parameters that each worker `noted` and of the `final` ones; None of too many gradients."""
    owner = [rank for rank, rows in noted.items() for _ in rows]
    index = [number for rows in noted.values() for number, _ in enumerate(rows)]
    of = np.array([row for rows in noted.values() for row in rows]).reshape(len(owner), len(given.start))
    if 4 * len(owner) > 3 * len(given.start):
        return None
    each = zip(owner, index, of, strict=True)
    parts = [given.scale[rank] * (x - given.targets[rank][number]) for rank, number, x in each]
    gradients = np.array(parts).reshape(of.shape)
    moved = (given.start - np.vstack([of, final])) / given.plan.lr
    shares = np.linalg.lstsq(gradients.T, moved.T, rcond=None)[0].T if owner else np.zeros((1, 0))
    rest = np.abs(moved - shares @ gradients).max(1) / max(1.0, float(np.abs(gradients).max(initial=0.0)))
    return History(tuple(owner), tuple(index), shares[:-1], shares[-1], rest[:-1], float(rest[-1]))
