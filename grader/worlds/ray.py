"""Ray: functions and classes of the learner's that use a running Ray."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.exercise import Grading
from grader.jobs.rays.bench import RayBench
from grader.jobs.rays.lease import Rays
from grader.worlds.shared import OneBench


@dataclass(frozen=True)
class Ray:
    """What `in_box`, a module of the exercise's own, calls in the learner's driver. Modules in `imported` are slow to
    import, and are there before the submission."""

    names: tuple[str, ...]
    in_box: Path
    imported: tuple[str, ...] = ()

    def open(self, grading: Grading) -> OneBench:
        harness = self.in_box.read_text(encoding="utf-8")
        rays = grading.machine.lend(Rays)
        bench = RayBench(rays, grading.submission, self.names, harness, grading.seed, self.imported)
        return OneBench(bench, ("ray",), bench.close, bench.output)
