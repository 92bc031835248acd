"""What there is to know of a run of Spark: its jobs, stages and tasks, and what they read and wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Task:
    """One attempt at a task. Times in seconds since the run began, sizes in bytes."""

    stage: int
    attempt: int
    index: int
    executor: str
    since: float
    until: float
    ended: str  # "Success", or why not
    read: int  # input, from files or from cached blocks
    records_read: int
    fetched: int  # through the shuffle
    records_fetched: int
    written: int  # for the shuffle
    records_written: int
    result: int
    spilled: int


@dataclass(frozen=True)
class Rdd:
    """An RDD of a stage. `name` is the operation that made it, `cached` whether it is to be kept."""

    number: int
    name: str
    parents: tuple[int, ...]
    cached: bool


@dataclass(frozen=True)
class Stage:
    """A stage of a job; `ran` is False where its output was there already."""

    number: int
    attempt: int
    name: str
    partitions: int
    parents: tuple[int, ...]
    rdds: tuple[Rdd, ...]
    ran: bool
    counted: dict[str, int] = field(default_factory=dict)  # accumulators with a name, SQL's metrics among them
    tasks: tuple[Task, ...] = ()

    @property
    def written(self) -> int:
        """Bytes that its tasks wrote for the shuffle."""
        return sum(task.written for task in self.tasks)

    @property
    def records_written(self) -> int:
        """Records that its tasks wrote for the shuffle."""
        return sum(task.records_written for task in self.tasks)


@dataclass(frozen=True)
class Ran:
    """All that happened while an action ran."""

    result: Any
    seconds: float
    jobs: int
    stages: tuple[Stage, ...]  # in the order of their numbers, those skipped among them

    @property
    def tasks(self) -> list[Task]:
        """Every task of every stage that ran, in order of stage, then of partition."""
        return [task for stage in self.stages for task in sorted(stage.tasks, key=lambda task: task.index)]

    @property
    def shuffled(self) -> int:
        """Bytes written for the shuffle."""
        return sum(stage.written for stage in self.stages)

    @property
    def records(self) -> int:
        """Records written for the shuffle."""
        return sum(stage.records_written for stage in self.stages)

    @property
    def read(self) -> int:
        """Bytes read from files or from cached blocks."""
        return sum(task.read for task in self.tasks)

    @property
    def to_driver(self) -> int:
        """Bytes that tasks sent to the driver as their results."""
        return sum(task.result for task in self.tasks)

    def counted(self, name: str) -> int:
        """The sum of an accumulator of that name over all stages: "data sent to Python workers"."""
        return sum(stage.counted.get(name, 0) for stage in self.stages)

    @property
    def joined(self) -> list[Task]:
        """The tasks, in order of partition, of the stage that fetched most records through a shuffle."""
        stage = max(self.stages, key=lambda stage: sum(task.records_fetched for task in stage.tasks))
        return sorted(stage.tasks, key=lambda task: task.index)
