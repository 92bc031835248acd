"""What a case of expert_parallel trains, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grader.exercises.expert_parallel import moe
from grader.exercises.expert_parallel.moe import Batch, Layer, Right
from grader.ranks.program import CallResult
from grader.verdict import Kind
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench


@dataclass(frozen=True)
class Job:
    """What a case trains, and on what."""

    layer: Layer
    batches: tuple[Batch, ...]
    layers: bool = False  # every step has a layer of its own, and all go forward before any goes backward
    away: bool = False  # no token's expert is on its own rank

    @cached_property
    def right(self) -> list[Right]:
        """What every step must give."""
        return [moe.solve(self.layer, batch) for batch in self.batches]


Judge = Callable[[RankBench, Case, "Found"], None]


class Found:
    """One finished call of a case, step by step."""

    def __init__(self, bench: RankBench, case: Case, result: CallResult) -> None:
        self.bench, self.case, self.result = bench, case, result
        self.job: Job = case.expected
        self.layer, self.n = self.job.layer, case.ranks
        self.steps = range(len(self.job.batches))

    def told(self, rank: int, step: int, name: str) -> Any:
        """What the harness returned of a step; None for what cannot be its answer."""
        steps = self.result.returned[rank]
        found = steps[step] if isinstance(steps, list) and len(steps) == len(self.steps) else None
        return found.get(name) if isinstance(found, dict) else None

    def lost(self, kind: Kind, what: str, rank: int | None = None, expected: str = "", got: str = "") -> Exception:
        return self.bench.lost(self.case, kind, f"With {self.case.label}: {what}", rank, expected, got)

    def when(self, step: int) -> str:
        return f"in step {step + 1} of {len(self.steps)}, " if len(self.steps) > 1 else ""
