"""The supervisor in Spark's box: it starts the JVM, lends it to drivers, and hands on what Spark's event log says.

The supervisor never loads a submission. A driver is a fork of it that does, writes in a folder of its own alone, and
reaches the JVM through a filter (see `py4j_filter`). What a DataFrame holds is collected by the supervisor itself.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError

from grader.jobs.sparks import driver, rows, tunings
from grader.jobs.sparks.jvm import CONF, Driver, Jvm
from grader.sandbox import frames, supervise

RUNS_A_COLLECTION = 20


class Supervisor:
    """Has a JVM, and lends it."""

    def __init__(self, options: list[str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="spark-", dir=Path.cwd()))
        self.given = Path(tempfile.mkdtemp(prefix="given-", dir=Path.cwd()))  # the JVM reads it; Python may not
        events = self.folder / "events"
        events.mkdir()
        self.jvm = Jvm(self.folder, {**CONF, "spark.eventLog.dir": f"file://{events}"}, options)
        self.gateway, self.context, self.session = self.jvm.gateway, self.jvm.context, self.jvm.session
        (log,) = events.iterdir()
        self.log = log.open("rb")
        self._runs = 0
        self.group = secrets.token_hex(8)  # of the jobs that are the supervisor's own
        self.context.setJobGroup(self.group, "", False)
        self.own = {path.name for path in self.folder.iterdir()}
        self.kept: dict[str, tuple[int, int, int]] = {}  # what the files were like when they were given

    def events(self) -> bytes:
        """The lines that have come to the event log since this was last asked."""
        self.context.sc().listenerBus().waitUntilEmpty()
        started = self.log.tell()
        data = self.log.read()
        whole = data.rfind(b"\n") + 1
        self.log.seek(started + whole)
        return data[:whole]

    def settings(self, session: Any) -> dict[str, str]:
        """A session's settings that are not as Spark comes."""
        converted = self.gateway.jvm.scala.jdk.javaapi.CollectionConverters.asJava(session.conf().getAll())
        return {str(name): str(converted[name]) for name in converted}

    def tidy(self) -> None:
        """Forget what a driver left: cached data, temporary views, streams, files."""
        for query in self.session.streams().active():
            query.stop()
        self.context.sc().cancelAllJobs()
        for number in list(self.context.getPersistentRDDs()):
            self.context.sc().unpersistRDD(number, True)
        self.session.catalog().clearCache()
        # of Python's side of tasks; who forks them goes on
        supervise.send(self.jvm.processes(depth=2), signal.SIGKILL)
        self._runs += 1
        if self._runs % RUNS_A_COLLECTION == 0:
            self.gateway.jvm.java.lang.System.gc()  # Spark then removes files of shuffles that nobody can ask for
        written = [path for path in self.folder.iterdir() if path.name not in self.own]  # by the JVM, for a driver
        for path in [*self.jvm.tasks.iterdir(), *written]:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def keep(self, name: str, data: bytes) -> None:
        """A file for arguments."""
        (self.given / name).write_bytes(data)
        self.kept[name] = self._like(name)

    def changed(self) -> bool:
        """Whether a driver had the JVM write over what was given."""
        return any(self._like(name) != like for name, like in self.kept.items())

    def _like(self, name: str) -> tuple[int, int, int]:
        try:
            found = (self.given / name).lstat()
        except FileNotFoundError:
            return 0, 0, 0
        return found.st_ino, found.st_size, found.st_mtime_ns


def serve(given: dict[str, Any], channel: frames.Channel) -> int:
    """Start the JVM, then make runs until nobody asks any more. Returns an exit status."""
    began = time.monotonic()
    try:
        spark = Supervisor(given["options"])
    except (RuntimeError, OSError, Py4JError) as error:
        channel.post({"event": "failed", "text": str(error)[:500]})
        return 1
    channel.post({"event": "up", "seconds": time.monotonic() - began, "group": spark.group})
    while (asked := channel.next()) is not None:
        if asked.header["event"] == "file":
            spark.keep(asked.header["name"], asked.blob)
            channel.post({"event": "kept"})
            continue
        _run(spark, asked.header, channel)
    return 0


def _run(spark: Supervisor, asked: dict[str, Any], channel: frames.Channel) -> None:
    """One driver's life, from its fork to its end."""
    spark.events()
    session = spark.session.newSession()
    for name, value in asked.get("conf", {}).items():
        session.conf().set(name, value)
    settings = spark.settings(session)
    own = Path(tempfile.mkdtemp(prefix="driver-", dir=spark.folder))
    theirs = Driver(spark.jvm, session, asked, spark.given, own)
    try:
        event = theirs.heard(asked["seconds"])
        if event.get("event") == "returned" and event.get("frame"):
            event = _collected(spark, event, settings, [each.get("frame") for each in asked["arguments"]])
        elif event.get("event") == "returned" and event.get("tuning"):
            event = tunings.described(spark.gateway, spark.session.newSession(), spark.given, event, asked)
        event["refused"] = theirs.refused()
        if spark.changed():
            event["refused"] += ["it must not write over the files that it was given"]
        channel.post({**event, "phase": "result"})
    finally:
        theirs.end()
        shutil.rmtree(own, ignore_errors=True)
    data = spark.events()
    spark.tidy()
    channel.post({"event": "measured", "log": os.fstat(spark.log.fileno()).st_size}, data)


def _collected(
    spark: Supervisor, event: dict[str, Any], settings: dict[str, str], files: list[str | None]
) -> dict[str, Any]:
    """The rows of the DataFrame that a driver returned, as JSON texts, its columns, and the plan that made them.

    `settings` are those with which the session was lent: told are those that its session has otherwise by now. `files`
    are the files of the arguments, for the plan.
    """
    try:
        frame = spark.jvm.object(event["frame"])
        columns = [[field.name(), field.dataType().simpleString()] for field in frame.schema().fields()]
        now = spark.settings(frame.sparkSession())
        texts = frame.toJSON()
        found = rows.texts(spark.gateway, texts)
        plan = _tree(_below_texts(texts.queryExecution().executedPlan()), str(spark.given), files)
    except Py4JError as error:
        text = driver.short(str(error))
        return {
            "event": "raised",
            "stage": "collect",
            "type": "Py4JJavaError",
            "text": text,
            "line": driver.line_in(str(error), event["file"]),
        }
    changed = {name: now.get(name, "") for name in settings | now if now.get(name) != settings.get(name)}
    return {"event": "returned", "type": "DataFrame", "columns": columns, "rows": found,
            "plan": plan, "changed": changed}  # fmt: skip


def _below_texts(node: Any) -> Any:
    """The plan of a DataFrame in that of its rows' texts, which is the one that was executed."""
    top = node
    while True:
        below = _below(node)
        if node.nodeName() == "DeserializeToObject":
            return below[0]
        if len(below) != 1:
            return top
        node = below[0]


def _below(node: Any) -> list[Any]:
    """What an operator reads from, also where Spark shows it as a leaf: cached data, subqueries, adaptive stages."""
    name, below = node.nodeName(), []
    if name == "AdaptiveSparkPlan":
        below = [node.executedPlan()]
    elif name.endswith("QueryStage"):
        below = [node.plan()]
    elif name.startswith("InMemoryTableScan"):
        below = [node.relation().cachedPlan()]
    for more in (node.subqueries(), node.children()):
        below += [more.apply(number) for number in range(more.size())]
    return below


def _tree(node: Any, folder: str, files: list[str | None]) -> dict[str, Any]:
    """A physical plan's operators: each one's name, what it says of itself, and what it reads from.

    Where it was counted, how many rows it put out; and of the scan of an argument's file, which argument that is.
    """
    name = node.nodeName()
    told: dict[str, Any] = {"name": name, "text": node.simpleString(200)}
    counted = node.metrics().get("numOutputRows")
    if counted.isDefined():
        told["rows"] = counted.get().value()
    if name.startswith("Scan json"):
        paths = node.relation().location().rootPaths()
        found = [paths.apply(number).toUri().getPath() for number in range(paths.size())]
        ours = [f"{folder}/{file}" for file in files]
        if len(found) == 1 and found[0] in ours:
            told["argument"] = ours.index(found[0])
    return {**told, "children": [_tree(child, folder, files) for child in _below(node)]}
