"""An executor in a container of a given size: what it takes, who ends it, and what Spark writes down about that.

    spark = start("local-cluster[1,1,512]", {**ONCE, "spark.executor.memory": "512m"})
    run = contained(job)             run.task, run.executor: why they ended, from Spark's event log

A local cluster has no containers. Here one is played as YARN's NodeManager does it: the resident memory of the
executor's JVM and of its Python workers is added up now and then (YARN: every 3 s), but for the pages of mapped files,
which the kernel can drop (YARN counts them, too). When it is above the limit, all of them get SIGKILL. The limit is
the one that Spark would ask YARN for. Sizes are in MB of 2**20 bytes, as Spark's are.
Source: Spark's manual, "Configuration", spark.executor.memoryOverhead and spark.executor.pyspark.memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from courselib import sparks
from courselib.sparklog import events
from grader.submission import BadRequest

ONCE = {"spark.task.maxFailures": "1"}  # a task that has failed is not tried again: here three times would be the same
LOOKS = 0.05  # seconds between two looks at the memory
MB = 2**20
OUT_OF_HEAP = 52  # the status with which an executor ends after an OutOfMemoryError (SparkExitCode.OOM)
MEANINGS = {OUT_OF_HEAP: "out of heap", 137: "SIGKILL"}


@dataclass
class Contained:
    """What came of an action, and what the executor took meanwhile. Memory in MB."""

    limit: int
    result: Any = None
    raised: str = ""  # what the driver's program got, in a line
    task: str = "Success"  # why the task ended, as the event log says
    executor: str = "lives"  # why the executor was removed
    jvm: int = 0  # at the moment at which both together were the most
    python: int = 0


@dataclass
class Watch:
    """A thread that adds up what the executors of this application take."""

    limit: int
    application: str
    jvm: int = 0
    python: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """One look at all executors; those above the limit are killed, with all below them."""
        for executor in _executors(self.application):
            family = list(_family(executor))
            jvm = sum(resident for pid, resident in family if pid == executor)
            python = sum(resident for pid, resident in family if pid != executor)
            if jvm + python > self.jvm + self.python:
                self.jvm, self.python = jvm, python
            if jvm + python > self.limit * MB:
                for pid, _ in family:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def run(self) -> None:
        while not self.over.wait(LOOKS):
            self.look()


def limit(conf: Any) -> dict[str, int]:
    """The parts of the container that Spark asks YARN for with these settings (a SparkConf), and their sum, in MB.

    The same as ResourceProfile.getResourcesForClusterManager gives, without memory off the heap and resource profiles.
    """
    heap = _mb(conf.get("spark.executor.memory", "1g"))
    factor = float(conf.get("spark.executor.memoryOverheadFactor", "0.1"))
    least = _mb(conf.get("spark.executor.minMemoryOverhead", "384m"))
    overhead = _mb(conf.get("spark.executor.memoryOverhead", f"{max(least, int(factor * heap))}m"))
    python = _mb(conf.get("spark.executor.pyspark.memory", "0m"))
    return {"heap": heap, "overhead": overhead, "Python": python, "container": heap + overhead + python}


def _mb(text: str) -> int:
    """A size as in Spark's settings: "512m", "1g"; MB where no unit is said."""
    number, unit = re.fullmatch(r"(\d+)([mg]?)b?", text.strip().lower()).groups()  # type: ignore[union-attr]
    return int(number) * (1024 if unit == "g" else 1)


def contained(action: Callable[[], Any]) -> Contained:
    """Call `action` while the executors are watched. Raises BadRequest where no Spark is running."""
    context = sparks.active()
    if context is None:
        raise BadRequest("no Spark is running here: start() one")
    size = limit(context.getConf())["container"]
    sparks.settle()
    path = sparks.event_log()
    mark = path.stat().st_size
    run, watch = Contained(size), Watch(size, context.applicationId)
    thread = threading.Thread(target=watch.run, daemon=True)
    thread.start()
    try:
        run.result = action()
    except Exception as error:  # Spark's, of many kinds
        run.raised = _line(str(error))
    finally:
        watch.over.set()
        thread.join()
    run.jvm, run.python = watch.jvm // MB, watch.python // MB
    if run.raised:
        _told(run, path, mark)
    return run


def _told(run: Contained, path: Path, mark: int) -> None:
    """What the event log says of the task and of the executor; waits for the executor's end where there is one."""

    def found() -> bool:
        sparks.settle()
        for event in events(path, mark):
            if event["Event"] == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] != "Success":
                run.task = _reason(event["Task End Reason"])
            elif event["Event"] == "SparkListenerExecutorRemoved":
                run.executor = _ended(event["Removed Reason"])
        dies = "OutOfMemoryError" in run.task or "ExecutorLost" in run.task
        return run.executor != "lives" or not dies

    sparks._until(found, "the executor's end")


def _reason(told: dict[str, Any]) -> str:
    if told["Reason"] != "ExceptionFailure":
        return str(told["Reason"])
    python = re.findall(r"^(\w+Error)\b", told["Description"], re.MULTILINE)
    return python[-1] + " in Python" if python else f"{told['Class Name'].rsplit('.', 1)[-1]}: {told['Description']}"


def _ended(told: str) -> str:
    code = re.search(r"code (\d+)", told)
    return f"exit code {code[1]} ({MEANINGS.get(int(code[1]), 'its own')})" if code else told.splitlines()[0]


def _line(text: str) -> str:
    """The sentence in Spark's long message that says what it was."""
    for pattern in (r"(\w+Error: .+)", r"(Total size of .+)", r"(ExecutorLostFailure.+)", r"(\w+Error)$"):
        if found := re.search(pattern, text, re.MULTILINE):
            return found[1].strip()
    return text.strip().splitlines()[0]


def _executors(application: str) -> Iterator[int]:
    for pid in _processes():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            if "--executor-id" in words and application in words:
                yield pid


def _family(ancestor: int) -> Iterator[tuple[int, int]]:
    """A process and all below it, with their resident bytes that are no pages of files (proc_pid_statm(5))."""
    children: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    for pid in _processes():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            _, all_pages, of_files, *_ = Path(f"/proc/{pid}/statm").read_text().split()
            children.setdefault(int(fields[1]), []).append(pid)
            resident[pid] = (int(all_pages) - int(of_files)) * os.sysconf("SC_PAGE_SIZE")
    todo = [ancestor]
    while todo:
        pid = todo.pop()
        if pid in resident:
            yield pid, resident[pid]
            todo += children.get(pid, [])


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())
