"""A learner's driver, in a fork of the supervisor: it loads the submission and calls what is asked.

What a function is given is built here, by PySpark: `frame` and `rdd` from files that the supervisor wrote, and plain
values.
"""

from __future__ import annotations

import datetime
import gc
import os
import re
import resource
import signal
import socket
import sys
import warnings
from pathlib import Path
from typing import Any

from grader.jobs.sparks import confine, py4j_filter
from grader.sandbox import frames, program, supervise

CPU_SECONDS = 30


def fork(
    asked: dict[str, Any], folder: str, own: str, port: int, token: str, session: str
) -> tuple[int, frames.Channel]:
    """A driver in a new process, with nothing open but its channel. Returns its id and the channel's other end."""
    ours, theirs = socket.socketpair()

    def act() -> None:
        py4j_filter.let_go()
        supervise.close_others({theirs.fileno()})
        _live(asked, folder, own, port, token, session, frames.Channel(theirs))

    pid = supervise.fork(act)
    theirs.close()
    return pid, frames.Channel(ours)


def _live(
    asked: dict[str, Any], folder: str, own: str, port: int, token: str, session: str, channel: frames.Channel
) -> None:
    """From the fork to the end of a run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=token, PYSPARK_PYTHON=sys.executable)
    confine.to([own, os.environ["RANKUP_TASKS"], *asked.get("writes", ())])
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    warnings.simplefilter("ignore")
    file = asked["file"]
    try:
        spark = _session(session, own)
    except BaseException as error:
        channel.post({"event": "failed", "text": f"{type(error).__name__}: {error}"[:300]})
        return
    channel.post(_told(asked, file, spark, folder))
    while channel.next():  # what was returned is kept until the supervisor has seen it; it may ask once more
        channel.post(_again(asked, file, spark, folder))


def _session(session: str, own: str) -> Any:
    """PySpark's objects around the JVM's session of this name."""
    from py4j.java_gateway import JavaObject
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    theirs = JavaObject(session, gateway._gateway_client)
    jvm: Any = gateway.jvm
    context = jvm.org.apache.spark.api.java.JavaSparkContext(theirs.sparkContext())
    SparkContext._gateway, SparkContext._jvm = gateway, jvm
    conf = SparkConf(_jconf=context.getConf())
    python = SparkContext(gateway=gateway, jsc=context, conf=conf)
    python._temp_dir = own
    spark = SparkSession(python, theirs)
    SparkSession._instantiatedSession = SparkSession._activeSession = spark
    getattr(getattr(jvm.org.apache.spark.sql.classic, "SparkSession$"), "MODULE$").setActiveSession(theirs)
    return spark


def _told(asked: dict[str, Any], file: str, spark: Any, folder: str) -> dict[str, Any]:
    """What became of the program, as the grading process is told."""
    source, stage = asked["source"], "compile"
    try:
        code = compile(source, file, "exec", dont_inherit=True)
        stage = "load"
        module = program.load(code, source, file, listed=False)  # not there for tasks: it is pickled by value
        function = getattr(module, asked["call"], None)
        if not callable(function):
            return {"event": "missing", "text": f"does not define {asked['call']}"}
        stage = "call"
        _loaded[:] = [function]
        if "before" in asked:
            function(*[built(spark, each, folder) for each in asked["before"]])
        given = [built(spark, each, folder) for each in asked["arguments"]]
        value = function(*given)
        if "after" in asked:
            function(*[built(spark, each, folder) for each in asked["after"]])
        return _returned(value, file)
    except BaseException as error:
        return _raised(error, file, stage)


def _again(asked: dict[str, Any], file: str, spark: Any, folder: str) -> dict[str, Any]:
    """Call the function once more, in the program that is loaded already."""
    try:
        return _returned(_loaded[0](*[built(spark, each, folder) for each in asked["arguments"]]), file)
    except BaseException as error:
        return _raised(error, file, "call")


_loaded: list[Any] = []  # the function that was called


def built(spark: Any, given: dict[str, Any], folder: str) -> Any:
    """An argument: {"value"}, {"date"}, {"rdd": file, "pairs"}, {"frame": file, "schema"}, {"spark"} or {"path"}."""
    if "value" in given:
        return given["value"]
    if "spark" in given:
        return spark
    if "path" in given:
        return given["path"]
    if "date" in given:
        return datetime.date.fromisoformat(given["date"])
    if "rdd" in given:
        lines = spark.sparkContext.textFile("file://" + str(Path(folder) / given["rdd"]), 4)
        return lines.map(lambda line: tuple(line.split("\t"))) if given.get("pairs") else lines
    if "frame" in given:
        return spark.read.schema(given["schema"]).json("file://" + str(Path(folder) / given["frame"]))
    raise ValueError(f"nothing is known of {sorted(given)}")


def _returned(value: Any, file: str) -> dict[str, Any]:
    from pyspark.ml.tuning import CrossValidator
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    gc.collect()
    if isinstance(value, CrossValidator):
        try:
            _kept.append(value._to_java())
        except Exception as error:
            text = f"{short(str(error))} (Spark cannot convert this CrossValidator. Its grid may only name parameters "
            text += "of stages in its own pipeline, and each stage must be a class of Spark's.)"
            return {"event": "raised", "stage": "call", "type": type(error).__name__, "text": text, "line": None}
        return {"event": "returned", "type": "CrossValidator", "tuning": _kept[-1]._target_id, "file": file}
    if isinstance(value, StreamingQuery):
        _kept.append(value)
        return {"event": "returned", "type": "StreamingQuery", "query": value._jsq._target_id, "file": file}
    if isinstance(value, DataFrame):
        _kept.append(value)
        return {"event": "returned", "type": "DataFrame", "frame": value._jdf._target_id, "file": file}
    if isinstance(value, dict):
        value = [list(pair) for pair in value.items()]
        tree, _ = frames.encode(value, lambda _: None)
        return {"event": "returned", "type": "dict", "value": tree}
    tree, _ = frames.encode(value, lambda _: None)
    return {"event": "returned", "type": type(value).__name__, "value": tree}


_kept: list[Any] = []  # what the supervisor is to look at lives as long as this process


def _raised(error: BaseException, file: str, stage: str) -> dict[str, Any]:
    event = program.raised(error, file, stage)
    text = "out of memory" if isinstance(error, MemoryError) else program.text_of(error)
    kind, text = _of_a_task(text) or (event["type"], short(text))
    return {**event, "type": kind, "text": text, "line": line_in(str(error), file) or event["line"]}


def line_in(text: str, file: str) -> int | None:
    """The last line of the submission in a traceback that came from Python's side of a task."""
    found = re.findall(rf'File "{re.escape(file)}", line (\d+)', text)
    return int(found[-1]) if found else None


def _of_a_task(text: str) -> tuple[str, str] | None:
    """The type and the words of what was raised in Python's side of a task; None where nothing was."""
    raised = re.findall(r"^((?!org\.|java\.|pyspark\.|py4j\.)[\w.]+)(?:: (.*))?$", text, re.MULTILINE)
    errors = [
        (kind, words) for kind, words in raised if kind.endswith(("Error", "Exception", "Interrupt", "Iteration"))
    ]
    return (errors[-1][0], errors[-1][1][:500]) if 'File "' in text and errors else None


def short(text: str) -> str:
    """What a learner reads of Spark's error: the first line that says something."""
    told = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("An error occurred")]
    return (told[0] if told else "")[:500].removeprefix(": ")


def cause(text: str) -> str:
    """Why something failed that Spark did for a learner: what their function raised, or else the first cause of all."""
    raised = re.findall(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt)\b: .*$", text, re.MULTILINE)
    theirs = [line for line in raised if not line.startswith(("org.", "java.", "py4j.", "scala.", "Caused"))]
    causes = re.findall(r"^Caused by: (.*)$", text, re.MULTILINE)
    if "Traceback (most recent call last)" in text and theirs:
        return str(theirs[-1])[:500]
    return str(causes[-1])[:500] if causes else short(text)
