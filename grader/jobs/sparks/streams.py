"""The supervisor of a streaming query that is killed and started again, in a box. It does what it is told.

Each life is a JVM of its own and a fork that loads the submission and starts the query. What a query has done is seen
from outside: by the JVM's query, asked over a connection of the supervisor's own, and by the files of its checkpoint
and its output. All that there is of the query is killed at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject
from py4j.protocol import Py4JError

from grader.jobs.host import Hear, Tell
from grader.jobs.sparks import driver, gate, host, java, rows
from grader.jobs.sparks.folders import Folders
from grader.sandbox import usage

CONF = {
    **host.CONF,
    "spark.sql.shuffle.partitions": "2",
    "spark.eventLog.enabled": "false",
}
POLL_SECONDS = 0.002
OURS = ("getThreadDump", "processAllAvailable")  # what this supervisor itself has the JVM do meanwhile
CALL_SECONDS, STEP_SECONDS = 60.0, 60.0  # real ones: the last resort (`engine.RUN_SECONDS`)
MOST_ROWS = 20_000


class Ended(Exception):  # noqa: N818 - reads as what happened
    """A life cannot go on: what the grading process is told of it."""

    def __init__(self, **told: Any) -> None:
        super().__init__(str(told))
        self.told = told


class Life:
    """A JVM, its gate and a driver, from their start to their end."""

    def __init__(self, given: dict[str, Any], root: Path, paths: list[str]) -> None:
        self._given, self._paths, self._root = given, paths, root
        self.folder = Path(tempfile.mkdtemp(prefix="life-", dir=root))
        self._pids: list[int] = []
        self._channel: socket.socket | None = None
        self._jvm: java.Gateway | None = None
        self._query: Any = None

    def start(self) -> None:
        """Start all of it, and call the submission's function. Raises Ended."""
        tasks, own = self.folder / "tasks", self.folder / "own"
        for path in (tasks, own):
            path.mkdir()
        (self.folder / f"{host.DAEMON}.py").write_text(host.DAEMON_SOURCE)
        os.environ["RANKUP_TASKS"] = str(tasks)
        os.environ["PYTHONPATH"] = str(self.folder)
        line = java.command(str(self.folder), CONF, self._given["options"])
        self._jvm = java.start(line, str(self.folder), str(self.folder / "errors"))
        parameters = GatewayParameters(port=self._jvm.port, auth_token=self._jvm.secret, auto_convert=True)
        self.gateway = JavaGateway(gateway_parameters=parameters)
        spark = self.gateway.jvm.org.apache.spark
        context = spark.api.java.JavaSparkContext(spark.SparkConf())
        self.session = spark.sql.classic.SparkSession(context.sc())
        theirs = self.session.newSession()
        token, (self._refusals, refused) = secrets.token_hex(16), os.pipe()
        os.set_blocking(self._refusals, False)
        pid, port = gate.fork(self._jvm.port, self._jvm.secret, token, refused)
        os.close(refused)
        self._pids.append(pid)
        self._keeps = [context, theirs]
        arguments = [{"spark": True}, *({"path": path} for path in self._paths)]
        asked = {**self._given, "arguments": arguments, "writes": self._paths[1:]}
        pid, self._channel = driver.fork(asked, str(self.folder), str(own), port, token, theirs._target_id)
        self._driver = pid
        self._pids.append(pid)
        self._returned()

    def _returned(self) -> None:
        """Wait until the function has returned a query. Raises Ended."""
        assert self._channel is not None
        told, _ = host._heard(self._channel, CALL_SECONDS)
        refused = host._refusals(self._refusals)
        if told.get("event") != "returned" or refused:
            raise Ended(**{**told, "refused": refused})
        if told.get("type") != "StreamingQuery":
            raise Ended(event="returned", type=str(told.get("type")))
        self._file = told["file"]
        self._query = JavaObject(told["query"], self.gateway._gateway_client)

    def go_on(self) -> None:
        """Have the function called once more, where the query has come to its end. Raises Ended."""
        assert self._channel is not None
        if not self._active():
            self._channel.sendall(b"!")
            self._returned()

    def _active(self) -> bool:
        try:
            return bool(self._query.isActive())
        except Py4JError as error:
            raise self._broke(error) from None

    def settled(self) -> Callable[[], bool]:
        """Begin to wait until all input has been processed and committed; what is returned says whether it has.

        It raises Ended where the query has failed."""
        found: list[Ended | None] = []

        def wait() -> None:
            try:
                if self._query.isActive():
                    self._query.processAllAvailable()
                if not self._query.exception().isEmpty():
                    found.append(Ended(**self._raised("StreamingQueryException", self._why())))
                else:
                    found.append(None)
            except Exception as error:
                with contextlib.suppress(Py4JError):
                    if not self._query.exception().isEmpty():
                        found.append(Ended(**self._raised("StreamingQueryException", self._why())))
                        return
                found.append(self._broke(error))

        threading.Thread(target=wait, daemon=True).start()

        def asked() -> bool:
            if found and found[0] is not None:
                raise found[0]
            return bool(found)

        return asked

    def _why(self) -> str:
        """The query's exception, and all of its causes."""
        error = self._query.exception().get()
        text = str(error.toString())
        for _ in range(10):
            error = error.getCause()
            if error is None:
                break
            text += f"\nCaused by: {error.toString()}"
        return text

    def _broke(self, error: Exception) -> Ended:
        return Ended(**self._raised(type(error).__name__, str(error)))

    def _raised(self, kind: str, text: str) -> dict[str, Any]:
        short = driver.cause(text)
        return {"event": "raised", "stage": "query", "type": kind, "text": short,
                "line": driver.line_in(text, self._file), "refused": host._refusals(self._refusals)}  # fmt: skip

    def hold(self, all_of_it: bool) -> None:
        """Stop the driver's process where it is, and with `all_of_it` the JVM's, too."""
        assert self._jvm is not None
        for pid in [self._driver, self._jvm.process.pid][: 1 + all_of_it]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def busy(self) -> bool:
        """Whether the JVM is still at work on something that Python told it."""
        threads = self.gateway.jvm.org.apache.spark.util.Utils.getThreadDump()
        stacks = [str(thread.stackTrace().toString()) for thread in threads]
        return any("py4j.commands." in stack and not any(name in stack for name in OURS) for stack in stacks)

    def finish(self) -> None:
        """Stop the query in an orderly way, and end the driver; the JVM stays, to read with."""
        with contextlib.suppress(Py4JError):
            self._query.stop()
        self._kill([self._driver])

    def read(self, path: str) -> dict[str, Any]:
        """What is in the output: columns with their types, and rows as JSON texts."""
        try:
            frame = self.session.newSession().read().parquet(self._listed(path))
            columns = [[field.name(), field.dataType().simpleString()] for field in frame.schema().fields()]
            found = rows.texts(self.gateway, frame.limit(MOST_ROWS).toJSON())
        except Py4JError as error:
            return {"event": "unread", "text": driver.short(str(error))}
        return {"event": "read", "columns": columns, "rows": found}

    def _listed(self, path: str) -> Any:
        array = self.gateway.new_array(self.gateway.jvm.java.lang.String, 1)
        array[0] = f"file://{path}"
        return array

    def _kill(self, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._pids = [pid for pid in self._pids if pid not in pids]

    def kill(self) -> None:
        """SIGKILL for all of it, and for what it has begun."""
        if self._jvm is not None:
            with usage.machine() as folder:
                parents = {each.pid: each.parent for each in usage.everybody(folder)}
            below = [pid for pid in parents if self._jvm.process.pid in _above(pid, parents)]
            self._jvm.process.kill()
            self._jvm.process.wait()
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert self._jvm.process.stdin is not None
            self._jvm.process.stdin.close()
            self._jvm = None
        self._kill(list(self._pids))
        if self._channel is not None:
            self._channel.close()
            os.close(self._refusals)
        shutil.rmtree(self.folder, ignore_errors=True)


def _above(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while (pid := parents.get(pid, 0)) > 1:
        yield pid


def serve(given: dict[str, Any], hear: Hear, tell: Tell) -> int:
    """Lead lives as the grading process asks. Returns an exit status."""

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # of a JVM that was killed nothing can be forgotten
    root = Path(tempfile.mkdtemp(prefix="stream-", dir=os.getcwd()))
    folders = Folders(root)
    life: Life | None = None
    try:
        while (asked := hear()) is not None:
            what = asked.header
            try:
                if what["event"] == "live":
                    for name, text in what.get("files", ()):
                        folders.add(name, text)
                    life = Life(given, root, folders.paths)
                    life.start()
                    tell({"event": "done"})
                elif life is None:
                    raise RuntimeError("nothing lives")
                else:
                    tell(_done(what, life, folders))
            except Ended as ended:
                tell(ended.told)
            except (RuntimeError, OSError, Py4JError) as error:
                tell({"event": "failed", "text": f"{type(error).__name__}: {error}"[:500]})
    finally:
        if life is not None:
            life.kill()
    return 0


def _done(what: dict[str, Any], life: Life, folders: Folders) -> dict[str, Any]:
    """One order, and what came of it."""
    if what["event"] == "step":
        return _step(what, life, folders)
    if what["event"] == "kill":
        life.kill()
        return {"event": "done", "taken": folders.uncommit() if what["uncommit"] else 0}
    if what["event"] == "finish":
        life.finish()
        return {"event": "done"}
    return life.read(str(folders.output))


def _step(what: dict[str, Any], life: Life, folders: Folders) -> dict[str, Any]:
    """Add files, and wait: until they are processed ("idle"); or, in the batch after the one that reads them, which
    writes what is closed, until there is something new in the output: then all stands still at once ("touched"), or
    Python alone ("frozen")."""
    logs = folders.logs("offsets")
    before, until = folders.open(logs), time.monotonic() + STEP_SECONDS
    for name, text in what["files"]:
        folders.add(name, text)
    life.go_on()
    settled = life.settled()
    old: frozenset[tuple[str, int]] | None = None
    while time.monotonic() < until:
        if what["until"] != "idle" and folders.open(logs) - before >= 2:
            seen = folders.written()
            if old is not None and seen != old:
                life.hold(what["until"] == "touched")
                while what["until"] == "frozen" and life.busy() and time.monotonic() < until:
                    time.sleep(POLL_SECONDS)
                return {"event": "done", "reached": what["until"]}
            old = seen
        if settled():
            return {"event": "done", "reached": "idle"}
        time.sleep(POLL_SECONDS)
    return {"event": "endless"}
