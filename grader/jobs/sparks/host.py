"""The supervisor in Spark's box: it starts the JVM, lends it to drivers, and hands on what Spark's event log says.

The supervisor never loads a submission. A driver is a fork of it that does, writes in a folder of its own alone, and
reaches the JVM through a gate (see `gate`). What a DataFrame holds is collected by the supervisor itself.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shutil
import signal
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject
from py4j.protocol import Py4JError

from grader.jobs import start
from grader.jobs.host import Hear, Tell
from grader.jobs.sparks import driver, gate, java, rows, tunings
from grader.sandbox import frames, usage

RUNS_A_COLLECTION = 20
DAEMON = "spark_tasks"  # a module that the JVM finds: in a box this package's folder is not listed (see `jobs.start`)
DAEMON_SOURCE = f"""import runpy, sys
sys.meta_path.insert(0, runpy.run_path({start.__file__!r}, run_name="start")["Finder"])
from grader.jobs.sparks import confine
if __name__ == "__main__":
    confine.main()
"""
CONF = {
    "spark.app.name": "submission",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.daemon.module": DAEMON,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
    "spark.eventLog.logBlockUpdates.enabled": "true",
    "spark.sql.streaming.ui.enabled": "false",
    "spark.sql.jsonGenerator.ignoreNullFields": "false",
    "spark.shuffle.compress": "false",  # bytes are to say what was sent, not how well it could be packed
    "spark.driver.maxResultSize": "64m",
    "spark.cleaner.periodicGC.interval": "24h",
}


class Lent:
    """A JVM with one SparkContext, and what is needed to lend it."""

    def __init__(self, options: list[str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="spark-", dir=os.getcwd()))
        self.given = Path(tempfile.mkdtemp(prefix="given-", dir=os.getcwd()))  # the JVM reads it; Python may not
        self.tasks, events = self.folder / "tasks", self.folder / "events"
        for path in (self.tasks, events):
            path.mkdir()
        (self.folder / f"{DAEMON}.py").write_text(DAEMON_SOURCE)
        os.environ["RANKUP_TASKS"] = str(self.tasks)
        os.environ["TZ"] = "UTC"  # of the JVM, of drivers and of tasks: a machine's time zone decides no verdict
        time.tzset()
        os.environ["PYTHONPATH"] = os.pathsep.join([str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        line = java.command(str(self.folder), {**CONF, "spark.eventLog.dir": f"file://{events}"}, options)
        self.jvm_process = java.start(line, str(self.folder), str(self.folder / "errors"))
        given = GatewayParameters(port=self.jvm_process.port, auth_token=self.jvm_process.secret, auto_convert=True)
        self.gateway = JavaGateway(gateway_parameters=given)
        spark = self.gateway.jvm.org.apache.spark
        self.context = spark.api.java.JavaSparkContext(spark.SparkConf())
        self.root = getattr(spark.sql.classic, "SparkSession$")
        self.session = spark.sql.classic.SparkSession(self.context.sc())
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
        self._end_workers()
        self._runs += 1
        if self._runs % RUNS_A_COLLECTION == 0:
            self.gateway.jvm.java.lang.System.gc()  # Spark then removes files of shuffles that nobody can ask for
        written = [path for path in self.folder.iterdir() if path.name not in self.own]  # by the JVM, for a driver
        for path in [*self.tasks.iterdir(), *written]:
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

    def _end_workers(self) -> None:
        """Kill the processes of Python's side of tasks, with what a submission left in them; who forks them goes on."""
        with usage.machine() as folder:
            parents = {each.pid: each.parent for each in usage.everybody(folder)}
        for pid, parent in parents.items():
            if parents.get(parent) == self.jvm_process.process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def serve(given: dict[str, Any], hear: Hear, tell: Tell) -> int:
    """Start the JVM, then make runs until nobody asks any more. Returns an exit status."""
    began = time.monotonic()
    try:
        lent = Lent(given["options"])
    except (RuntimeError, OSError, Py4JError) as error:
        tell({"event": "failed", "text": str(error)[:500]})
        return 1
    tell({"event": "up", "seconds": time.monotonic() - began, "group": lent.group})
    while (asked := hear()) is not None:
        if asked.header["event"] == "file":
            lent.keep(asked.header["name"], asked.blob)
            tell({"event": "kept"})
            continue
        _run(lent, asked.header, tell)
    return 0


def _run(lent: Lent, asked: dict[str, Any], tell: Tell) -> None:
    """One driver's life, from its fork to its end."""
    lent.events()
    session = lent.session.newSession()
    for name, value in asked.get("conf", {}).items():
        session.conf().set(name, value)
    settings = lent.settings(session)
    own = Path(tempfile.mkdtemp(prefix="driver-", dir=lent.folder))
    token, (refusals, refused) = secrets.token_hex(16), os.pipe()
    os.set_blocking(refusals, False)
    gate_pid, port = gate.fork(lent.jvm_process.port, lent.jvm_process.secret, token, refused)
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        kept = {0, 1, 2, theirs.fileno()}
        for fd in set(map(int, os.listdir("/proc/self/fd"))) - kept:
            with contextlib.suppress(OSError):
                os.close(fd)
        driver.live(asked, str(lent.given), str(own), port, token, session._target_id, theirs)
    theirs.close()
    os.close(refused)
    try:
        event, blob = _heard(ours, asked["seconds"])
        if event.get("event") == "returned" and event.get("frame"):
            event = _collected(lent, event, settings, [each.get("frame") for each in asked["arguments"]])
        elif event.get("event") == "returned" and event.get("tuning"):
            event = tunings.described(lent.gateway, lent.session.newSession(), lent.given, event, asked)
        event["refused"] = _refusals(refusals)
        if lent.changed():
            event["refused"] += ["it wrote over the files that it was given"]
        tell({**event, "phase": "result"}, blob)
    finally:
        ours.close()
        for each in (pid, gate_pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
            os.waitpid(each, 0)
        os.close(refusals)
        shutil.rmtree(own, ignore_errors=True)
    data = lent.events()
    lent.tidy()
    tell({"event": "measured"}, data)


def _heard(ours: socket.socket, seconds: float) -> tuple[dict[str, Any], bytes]:
    """What the driver says at its end; that it says nothing, where it does not within so many seconds."""
    reader, until = frames.Reader(), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if not select.select([ours], [], [], left)[0]:
            break
        data = ours.recv(2**18)
        if not data:
            return {"event": "died"}, b""
        for frame in reader.feed(data):
            if isinstance(frame, frames.Message):
                return dict(frame.header), frame.blob
    return {"event": "endless"}, b""


def _refusals(pipe: int) -> list[str]:
    try:
        return os.read(pipe, 4096).decode(errors="replace").splitlines()[:5]
    except BlockingIOError:
        return []


def _collected(lent: Lent, event: dict[str, Any], settings: dict[str, str], files: list[str | None]) -> dict[str, Any]:
    """The rows of the DataFrame that a driver returned, as JSON texts, its columns, and the plan that made them.

    `settings` are those with which the session was lent: told are those that its session has otherwise by now. `files`
    are the files of the arguments, for the plan.
    """
    try:
        frame = JavaObject(event["frame"], lent.gateway._gateway_client)
        columns = [[field.name(), field.dataType().simpleString()] for field in frame.schema().fields()]
        now = lent.settings(frame.sparkSession())
        texts = frame.toJSON()
        found = rows.texts(lent.gateway, texts)
        plan = _tree(_below_texts(texts.queryExecution().executedPlan()), str(lent.given), files)
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
