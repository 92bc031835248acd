"""Spark: functions of the learner's that are given a session."""

from __future__ import annotations

from dataclasses import dataclass

from grader.exercise import Grading
from grader.jobs.sparks.bench import SparkBench
from grader.jobs.sparks.engine import Spark as Engine
from grader.worlds.shared import OneBench


@dataclass(frozen=True)
class Spark:
    """Functions that are called on a warm Spark."""

    names: tuple[str, ...]

    def open(self, grading: Grading) -> OneBench:
        bench = SparkBench(grading.machine.lend(Engine), grading.submission, grading.seed)
        return OneBench(bench, ("spark",), bench.close)
