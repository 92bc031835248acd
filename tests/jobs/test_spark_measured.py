"""What is read from Spark's event log, and its picture."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

from grader.jobs.sparks.measured import Measured
from grader.jobs.sparks.shown import chart
from grader.trace import gantt


def task(stage: int, read: int, fetched: int, sent: int) -> dict[str, Any]:
    metrics = {
        "Result Size": 100,
        "Output Metrics": {"Records Written": 0, "Bytes Written": 0},
        "Input Metrics": {"Records Read": read, "Bytes Read": 10 * read},
        "Shuffle Read Metrics": {
            "Total Records Read": fetched,
            "Remote Bytes Read": 0,
            "Local Bytes Read": 10 * fetched,
        },
        "Shuffle Write Metrics": {"Shuffle Records Written": sent, "Shuffle Bytes Written": 10 * sent},
    }
    return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Metrics": metrics}


def stage(number: int, name: str, kept: bool) -> dict[str, Any]:
    rdd = {"RDD ID": 7, "Name": "MapPartitionsRDD", "Storage Level": {"Use Memory": kept, "Use Disk": False}}
    return {
        "Event": "SparkListenerStageCompleted",
        "Stage Info": {"Stage ID": number, "Stage Name": name, "RDD Info": [rdd]},
    }


def job(number: int, stages: list[int], group: str) -> dict[str, Any]:
    return {
        "Event": "SparkListenerJobStart",
        "Job ID": number,
        "Stage IDs": stages,
        "Properties": {"spark.jobGroup.id": group},
    }


LOG = [
    job(0, [0, 1], "theirs"), task(0, 50, 0, 20), task(0, 30, 0, 10), stage(0, "map at mine.py:3", False),
    task(1, 0, 30, 0), stage(1, "collect at mine.py:4", True), {"Event": "SparkListenerUnpersistRDD", "RDD ID": 7},
    job(1, [2], "ours"), task(2, 5, 0, 0), stage(2, "collect", False), {"Event": "of another kind"},
]  # fmt: skip


def measured(events: list[dict[str, Any]]) -> Measured:
    return Measured.read("".join(json.dumps(event) + "\n" for event in events).encode(), "ours")


def test_counts_are_those_of_the_tasks() -> None:
    found = measured(LOG)
    assert (found.total("input_records"), found.total("shuffle_written_bytes")) == (85, 300)
    assert [each.ours for each in found.jobs] == [False, True]
    assert [got for _, got in found.results()] == [100, 100]
    assert (found.cached, found.unpersisted) == ({7}, {7})
    assert [each.operation for each in found.stages.values()] == ["map", "collect", "collect"]


def test_each_task_is_a_bar() -> None:
    drawn = chart(measured(LOG), "a run", "records")
    assert drawn.lanes == ("1.1 map", "1.2 map", "2.1 collect", "3.1 collect")
    assert [bar.end for bar in drawn.bars] == [50, 30, 30, 5]
    assert "2 jobs, 3 stages; 300 B shuffled" in drawn.subtitle


def test_a_run_without_a_task_has_a_picture() -> None:
    ElementTree.fromstring(gantt.svg(chart(measured([]), "nothing", "bytes")))
