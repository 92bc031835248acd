"""What is read from Spark's event log, and drawn of it: stages that ran and were skipped, tasks, bytes, plans."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from courselib.sparkdraw import operators, plan, stages
from courselib.sparklog import Shown, events, read


def rdd(number: int, name: str, parents: tuple[int, ...] = (), cached: bool = False) -> dict[str, Any]:
    level = {"Use Memory": cached, "Use Disk": False}
    return {"RDD ID": number, "Scope": json.dumps({"id": "0", "name": name}), "Callsite": "collect at x.py:1",
            "Parent IDs": list(parents), "Storage Level": level}  # fmt: skip


def stage(number: int, parents: tuple[int, ...] = (), attempt: int = 0, **counted: int) -> dict[str, Any]:
    named = [
        {"ID": at, "Name": name.replace("_", " "), "Value": value} for at, (name, value) in enumerate(counted.items())
    ]
    return {"Stage ID": number, "Stage Attempt ID": attempt, "Stage Name": "collect at x.py:1", "Number of Tasks": 2,
            "RDD Info": [rdd(2 * number, "map"), rdd(2 * number + 1, "reduceByKey", (2 * number,), number == 1)],
            "Parent IDs": list(parents), "Accumulables": named}  # fmt: skip


def task(
    number: int, index: int, written: int = 0, fetched: int = 0, attempt: int = 0, ended: str = "Success"
) -> dict[str, Any]:
    info = {"Index": index, "Executor ID": str(index), "Launch Time": 11_000, "Finish Time": 12_500}
    through = {"Remote Bytes Read": 0, "Local Bytes Read": 5 * fetched, "Total Records Read": fetched}
    metrics = {"Result Size": 7, "Input Metrics": {"Bytes Read": 100, "Records Read": 4},
               "Shuffle Read Metrics": through,
               "Shuffle Write Metrics": {"Shuffle Bytes Written": written, "Shuffle Records Written": 2}}  # fmt: skip
    found = {"Event": "SparkListenerTaskEnd", "Stage ID": number, "Stage Attempt ID": attempt, "Task Info": info,
             "Task End Reason": {"Reason": ended}}  # fmt: skip
    return {**found, "Task Metrics": metrics} if ended == "Success" else found


def told(*found: dict[str, Any]) -> Shown:
    return read(found, "the result", 1.5, 10.0)


def job(*infos: dict[str, Any]) -> dict[str, Any]:
    return {"Event": "SparkListenerJobStart", "Stage Infos": list(infos)}


def done(info: dict[str, Any]) -> dict[str, Any]:
    return {"Event": "SparkListenerStageCompleted", "Stage Info": info}


RUN = told(job(stage(0), stage(1, (0,))), task(0, 1, 30), task(0, 0, 12), done(stage(0, sent_to_Python=40)),
           task(1, 0, fetched=9), task(1, 1, fetched=3), done(stage(1, (0,), sent_to_Python=2)))  # fmt: skip


def test_bytes_and_records_are_those_of_the_tasks() -> None:
    assert (RUN.result, RUN.jobs, RUN.shuffled, RUN.read, RUN.to_driver) == ("the result", 1, 42, 400, 28)
    assert RUN.counted("sent to Python") == 42
    assert [task.index for task in RUN.tasks] == [0, 1, 0, 1]
    assert [task.records_fetched for task in RUN.joined] == [9, 3]


def test_times_are_counted_from_where_the_run_began() -> None:
    assert {(task.since, task.until) for task in RUN.tasks} == {(1.0, 2.5)}


def test_a_stage_whose_output_was_there_is_skipped() -> None:
    again = told(job(stage(2), stage(3, (2,))), task(3, 0), done(stage(3, (2,))))
    assert [stage.ran for stage in again.stages] == [False, True]
    assert "skipped" in stages(again).svg


def test_a_stage_that_is_run_again_has_both_attempts() -> None:
    lost = told(
        job(stage(0)), task(0, 0, ended="FetchFailed"), done(stage(0)), task(0, 0, attempt=1), done(stage(0, attempt=1))
    )
    assert [(stage.attempt, stage.tasks[0].ended) for stage in lost.stages] == [(0, "FetchFailed"), (1, "Success")]
    assert "attempt 2" in stages(lost).svg


def test_stages_are_drawn_with_what_they_do_and_the_bytes_between_them() -> None:
    svg = stages(RUN, "Two stages").svg
    for text in ("stage 0", "2 tasks", "map", "reduceByKey (cached)", "42 B"):
        assert text in svg


def test_a_last_line_that_is_not_complete_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "events"
    log.write_text('{"Event":"a"}\n{"Event":"b"}\n{"Eve')
    assert [event["Event"] for event in events(log)] == ["a", "b"]
    assert [event["Event"] for event in events(log, 14)] == ["b"]


class Frame:
    """Stands in for a DataFrame whose plan is this text."""

    def __init__(self, text: str) -> None:
        executed = SimpleNamespace(toString=lambda: text)
        self._jdf = SimpleNamespace(queryExecution=lambda: SimpleNamespace(executedPlan=lambda: executed))


ADAPTED = """AdaptiveSparkPlan isFinalPlan=true
+- == Final Plan ==
   ResultQueryStage 1
   +- *(2) HashAggregate(keys=[k#1L], functions=[count(1)])
      +- AQEShuffleRead coalesced
         +- ShuffleQueryStage 0
            +- Exchange hashpartitioning(k#1L, 4), ENSURE_REQUIREMENTS, [plan_id=27]
               +- *(1) Range (0, 100, step=1, splits=2)
+- == Initial Plan ==
   HashAggregate(keys=[k#1L], functions=[count(1)])
   +- Exchange hashpartitioning(k#1L, 4), ENSURE_REQUIREMENTS, [plan_id=15]
      +- Range (0, 100, step=1, splits=2)
"""
JOIN = """AdaptiveSparkPlan isFinalPlan=false
+- SortMergeJoin [k#1], [k#2], Inner
   :- Sort [k#1 ASC NULLS FIRST], false, 0
   :  +- FileScan parquet [k#1] Batched: true, DataFilters: [isnotnull(k#1)], Format: Parquet, Location: \
InMemoryFileIndex(1 paths)[file:/tmp/x], PartitionFilters: [], PushedFilters: [IsNotNull(k)], ReadSchema: struct<k:int>
   +- Sort [k#2 ASC NULLS FIRST], false, 0
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (ADAPTED, ["HashAggregate", "AQEShuffleRead", "Exchange", "Range"]),
        (JOIN, ["SortMergeJoin", "Sort", "FileScan", "Sort"]),
    ],
)
def test_a_plan_names_its_operators_from_the_top(text: str, names: list[str]) -> None:
    assert operators(Frame(text)) == names


def test_a_plan_is_shown_without_what_changes_from_run_to_run() -> None:
    shown = str(plan(Frame(ADAPTED)))
    assert shown.splitlines()[2] == "   +- Exchange hashpartitioning(k, 4)"
    scan = str(plan(Frame(JOIN))).splitlines()[2]
    assert scan == "   +- FileScan parquet [k] PushedFilters: [IsNotNull(k)], ReadSchema: struct<k:int>"


def test_a_long_line_of_a_plan_is_cut() -> None:
    assert str(plan(Frame(JOIN), width=20)).splitlines()[0] == "SortMergeJoin [k]..."
