"""What Spark's event log says of a run: its jobs, their stages, what each task read, wrote and sent, what was cached.

The log is JSON lines as Spark writes them (Spark manual, "Monitoring and instrumentation"; JsonProtocol).
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Task:
    """One task's counts: records and bytes."""

    input_records: int = 0
    input_bytes: int = 0
    shuffle_read_records: int = 0
    shuffle_read_bytes: int = 0
    shuffle_written_records: int = 0
    shuffle_written_bytes: int = 0
    result_bytes: int = 0
    written_records: int = 0  # to files


@dataclass
class Stage:
    """One stage that ran. `rdds` are the operations in it, `cached` those whose storage was asked for."""

    number: int
    name: str
    rdds: dict[int, str] = field(default_factory=dict)
    cached: set[int] = field(default_factory=set)
    tasks: list[Task] = field(default_factory=list)

    @property
    def operation(self) -> str:
        """What it is named by: "reduceByKey at mine.py:3" is reduceByKey."""
        return self.name.split(" at ")[0][:24]

    def total(self, what: str) -> int:
        """The sum of one of the tasks' counts."""
        return sum(getattr(task, what) for task in self.tasks)


@dataclass
class Job:
    """One action: its stages' numbers, and whether it was the supervisor's own."""

    number: int
    stages: list[int]
    ours: bool


@dataclass
class Measured:
    """All of a run's jobs, its stages by number, and what became of cached data."""

    jobs: list[Job] = field(default_factory=list)
    stages: dict[int, Stage] = field(default_factory=dict)
    unpersisted: set[int] = field(default_factory=set)
    queries: list[str] = field(default_factory=list)  # of each query of Spark SQL, what called for it

    @classmethod
    def read(cls, log: bytes, group: str) -> Measured:
        """From the log's lines. `group` is the supervisor's own job group."""
        found = cls()
        tasks: dict[int, list[Task]] = defaultdict(list)
        for line in log.splitlines():
            event = json.loads(line)
            kind = event.get("Event")
            if kind == "SparkListenerJobStart":
                properties = event.get("Properties") or {}
                ours = properties.get("spark.jobGroup.id") == group
                found.jobs.append(Job(int(event["Job ID"]), [int(each) for each in event["Stage IDs"]], ours))
            elif kind == "SparkListenerStageCompleted":
                stage = _stage(event["Stage Info"])
                found.stages[stage.number] = stage
            elif kind == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                tasks[int(event["Stage ID"])].append(_task(event["Task Metrics"]))
            elif kind == "SparkListenerUnpersistRDD":
                found.unpersisted.add(int(event["RDD ID"]))
            elif str(kind).endswith(".SparkListenerSQLExecutionStart"):
                found.queries.append(str(event.get("details", "")))
        for number, stage in found.stages.items():
            stage.tasks = tasks[number]
        return found

    def total(self, what: str) -> int:
        """The sum of one of the counts over all tasks."""
        return sum(stage.total(what) for stage in self.stages.values())

    def results(self) -> list[tuple[Job, int]]:
        """Of each job, the bytes that its last stage's tasks sent to the driver."""
        last = [(job, max(job.stages, default=-1)) for job in self.jobs]
        return [(job, self.stages[stage].total("result_bytes")) for job, stage in last if stage in self.stages]

    @property
    def cached(self) -> set[int]:
        """The RDDs whose storage was asked for while a stage used them."""
        return {number for stage in self.stages.values() for number in stage.cached}


def _stage(told: dict[str, Any]) -> Stage:
    stage = Stage(int(told["Stage ID"]), str(told["Stage Name"]))
    for rdd in told["RDD Info"]:
        stage.rdds[int(rdd["RDD ID"])] = str(rdd["Name"])
        level = rdd["Storage Level"]
        if level["Use Memory"] or level["Use Disk"]:
            stage.cached.add(int(rdd["RDD ID"]))
    return stage


def _task(told: dict[str, Any]) -> Task:
    read, write = told["Shuffle Read Metrics"], told["Shuffle Write Metrics"]
    return Task(
        input_records=int(told["Input Metrics"]["Records Read"]),
        input_bytes=int(told["Input Metrics"]["Bytes Read"]),
        shuffle_read_records=int(read["Total Records Read"]),
        shuffle_read_bytes=int(read["Remote Bytes Read"]) + int(read["Local Bytes Read"]),
        shuffle_written_records=int(write["Shuffle Records Written"]),
        shuffle_written_bytes=int(write["Shuffle Bytes Written"]),
        result_bytes=int(told["Result Size"]),
        written_records=int(told["Output Metrics"]["Records Written"]),
    )
