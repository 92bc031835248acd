"""The picture of a run on Spark: each task as a bar, as long as what it read or wrote."""

from __future__ import annotations

from typing import Literal

from grader import says
from grader.jobs.sparks.measured import Measured, Stage, Task
from grader.trace.gantt import Bar, Chart

MOST_LANES = 20
Unit = Literal["records", "bytes"]


def chart(measured: Measured, label: str, unit: Unit) -> Chart:
    """Tasks of the stages that moved most, in their order. Of RDDs a record is a batch of Python's objects: there bytes
    say more."""
    stages = {number: stage for number, stage in sorted(measured.stages.items()) if stage.tasks}
    place = {number: at for at, number in enumerate(stages, 1)}
    chosen: list[Stage] = []
    for stage in sorted(stages.values(), key=lambda stage: -sum(_long(task, unit) for task in stage.tasks)):
        if sum(len(each.tasks) for each in chosen) + len(stage.tasks) <= MOST_LANES:
            chosen.append(stage)
    drawn = Chart((), unit=f" {unit}")
    for stage in sorted(chosen, key=lambda stage: stage.number):
        for number, task in enumerate(stage.tasks, 1):
            lane = f"{place[stage.number]}.{number} {stage.operation}"
            drawn.bars.append(Bar(lane, 0.0, float(_long(task, unit)), _told(task, unit)))
    drawn.lanes = tuple(bar.lane for bar in drawn.bars)
    drawn.end = max((bar.end for bar in drawn.bars), default=1.0) or 1.0
    jobs, written = len(measured.jobs), says.size(measured.total("shuffle_written_bytes"))
    left = f", of which {len(chosen)} are shown" if len(chosen) < len(stages) else ""
    drawn.subtitle = (
        f"{label}: {jobs} job{'s' * (jobs != 1)}, {len(stages)} stage{'s' * (len(stages) != 1)}{left}; {written} "
        f"shuffled. Each bar is a task. Its length says how many {unit} the task read or wrote, whichever is more."
    )
    return drawn


def _long(task: Task, unit: Unit) -> int:
    if unit == "records":
        return max(task.input_records, task.shuffle_read_records, task.shuffle_written_records)
    return max(task.input_bytes, task.shuffle_read_bytes, task.shuffle_written_bytes)


def _told(task: Task, unit: Unit) -> str:
    said = []
    for verb, records, size in (
        ("reads", task.input_records, task.input_bytes),
        ("fetches", task.shuffle_read_records, task.shuffle_read_bytes),
        ("sends", task.shuffle_written_records, task.shuffle_written_bytes),
    ):
        if records:
            said.append(
                f"{verb} {says.size(size)}" if unit == "bytes" else f"{verb} {records:,} records ({says.size(size)})"
            )
    return ", ".join(said) or f"returns {says.size(task.result_bytes)}"
