"""What Spark itself wrote down about a run: jobs, stages and tasks, from its event log.

    run = ran(lambda: counts.collect())
    run.result, run.seconds          what came back, and how long it took
    run.shuffled, run.records        bytes and records that map tasks handed on
    run.stages, run.tasks            each with Spark's own metrics
    run                              shown: the stages and what passes between them

Source of the fields: Spark's manual, "Monitoring and instrumentation", event logging and task metrics.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from courselib.sparkdraw import stages
from courselib.sparkrun import Ran, Rdd, Stage, Task
from courselib.sparks import event_log, settle


class Shown(Ran):
    """A run that shows itself as the picture of its stages."""

    def _repr_html_(self) -> str:
        return stages(self)._repr_html_()


def ran(action: Callable[[], Any]) -> Shown:
    """Call `action`, and read what the running Spark application wrote about it. Passes on what it raises."""
    settle()
    path = event_log()
    mark, began = path.stat().st_size, time.time()
    since = time.perf_counter()
    result = action()
    seconds = time.perf_counter() - since
    settle()
    return read(events(path, mark), result, seconds, began)


def events(path: Path, mark: int = 0) -> list[dict[str, Any]]:
    """The events in the file from byte `mark` on; a last line that is not complete is left out."""
    with path.open("rb") as file:
        file.seek(mark)
        lines = file.read().split(b"\n")[:-1]
    return [json.loads(line) for line in lines if line]


def read(found: Iterable[dict[str, Any]], result: Any = None, seconds: float = 0.0, began: float = 0.0) -> Shown:
    """The run that these events tell of; `began` is when it began, in seconds since 1970."""
    known: dict[tuple[int, int], Stage] = {}
    tasks: dict[tuple[int, int], list[Task]] = {}
    jobs = 0
    for event in found:
        kind = event["Event"]
        if kind == "SparkListenerJobStart":
            jobs += 1
            for info in event["Stage Infos"]:
                known.setdefault(_key(info), _stage(info, False))
        elif kind in ("SparkListenerStageSubmitted", "SparkListenerStageCompleted"):
            known[_key(event["Stage Info"])] = _stage(event["Stage Info"], True)
        elif kind == "SparkListenerTaskEnd":
            key = event["Stage ID"], event["Stage Attempt ID"]
            tasks.setdefault(key, []).append(_task(event, began))
    done = []
    for key, stage in sorted(known.items()):
        done.append(Stage(**{**vars(stage), "tasks": tuple(tasks.get(key, ()))}))
    return Shown(result, seconds, jobs, tuple(done))


def _key(info: dict[str, Any]) -> tuple[int, int]:
    return info["Stage ID"], info["Stage Attempt ID"]


def _stage(info: dict[str, Any], did_run: bool) -> Stage:
    rdds = tuple(sorted((_rdd(each) for each in info["RDD Info"]), key=lambda rdd: rdd.number))
    counted: dict[str, int] = {}
    for each in info["Accumulables"]:
        name, value = each.get("Name", ""), str(each.get("Value", ""))
        if value.lstrip("-").isdigit() and not name.startswith("internal."):
            counted[name] = counted.get(name, 0) + int(value)
    return Stage(info["Stage ID"], info["Stage Attempt ID"], info["Stage Name"].split(" at ")[0],
                 info["Number of Tasks"], tuple(info["Parent IDs"]), rdds, did_run, counted)  # fmt: skip


def _rdd(info: dict[str, Any]) -> Rdd:
    scope = json.loads(info["Scope"])["name"] if "Scope" in info else info["Callsite"].split(" at ")[0]
    level = info["Storage Level"]
    return Rdd(info["RDD ID"], scope, tuple(info["Parent IDs"]), level["Use Memory"] or level["Use Disk"])


def _task(event: dict[str, Any], began: float) -> Task:
    info, metrics = event["Task Info"], event.get("Task Metrics") or {}
    incoming, fetched = metrics.get("Input Metrics", {}), metrics.get("Shuffle Read Metrics", {})
    written = metrics.get("Shuffle Write Metrics", {})
    return Task(
        event["Stage ID"], event["Stage Attempt ID"], info["Index"], info["Executor ID"],
        max(0.0, info["Launch Time"] / 1000 - began), max(0.0, info["Finish Time"] / 1000 - began),
        event["Task End Reason"]["Reason"],
        incoming.get("Bytes Read", 0), incoming.get("Records Read", 0),
        fetched.get("Remote Bytes Read", 0) + fetched.get("Local Bytes Read", 0), fetched.get("Total Records Read", 0),
        written.get("Shuffle Bytes Written", 0), written.get("Shuffle Records Written", 0),
        metrics.get("Result Size", 0), metrics.get("Memory Bytes Spilled", 0),
    )  # fmt: skip
