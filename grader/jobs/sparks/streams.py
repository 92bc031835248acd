"""The supervisor of a streaming query that is killed and started again, in a box. It does what it is told.

Each life is a JVM of its own and a fork that loads the submission and starts the query. What a query has done is seen
from outside: by the JVM's query, asked over a connection of the supervisor's own, and by the files of its checkpoint
and its output. All that there is of the query is killed at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError

from grader.jobs.sparks import driver, jvm, rows
from grader.jobs.sparks.folders import Folders
from grader.jobs.sparks.jvm import Driver, Jvm
from grader.sandbox import frames

CONF = {
    **jvm.CONF,
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
    """A JVM and a driver, from their start to their end."""

    def __init__(self, given: dict[str, Any], root: Path, paths: list[str]) -> None:
        self._given, self._paths = given, paths
        self.folder = Path(tempfile.mkdtemp(prefix="life-", dir=root))
        self._jvm: Jvm | None = None
        self._driver: Driver | None = None
        self._query: Any = None

    @property
    def jvm(self) -> Jvm:
        assert self._jvm is not None
        return self._jvm

    @property
    def driver(self) -> Driver:
        assert self._driver is not None
        return self._driver

    def start(self) -> None:
        """Start all of it, and call the submission's function. Raises Ended."""
        own = self.folder / "own"
        own.mkdir()
        self._jvm = Jvm(self.folder, CONF, self._given["options"])
        self._session = self._jvm.session.newSession()  # to be kept: the driver has it from us
        arguments = [{"spark": True}, *({"path": path} for path in self._paths)]
        asked = {**self._given, "arguments": arguments, "writes": self._paths[1:]}
        self._driver = Driver(self._jvm, self._session, asked, self.folder, own)
        self._returned()

    def _returned(self) -> None:
        """Wait until the function has returned a query. Raises Ended."""
        told, refused = self.driver.heard(CALL_SECONDS), self.driver.refused()
        if told.get("event") != "returned" or refused:
            raise Ended(**{**told, "refused": refused})
        if told.get("type") != "StreamingQuery":
            raise Ended(event="returned", type=str(told.get("type")))
        self._file = told["file"]
        self._query = self.jvm.object(told["query"])

    def go_on(self) -> None:
        """Have the function called once more, where the query has come to its end. Raises Ended."""
        if not self._active():
            self.driver.call_again()
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
                "line": driver.line_in(text, self._file), "refused": self.driver.refused()}  # fmt: skip

    def hold(self, all_of_it: bool) -> None:
        """Stop the driver's process where it is, and with `all_of_it` the JVM's, too."""
        for pid in [self.driver.pid, self.jvm.pid][: 1 + all_of_it]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def busy(self) -> bool:
        """Whether the JVM is still at work on something that Python told it."""
        threads = self.jvm.gateway.jvm.org.apache.spark.util.Utils.getThreadDump()
        stacks = [str(thread.stackTrace().toString()) for thread in threads]
        return any("py4j.commands." in stack and not any(name in stack for name in OURS) for stack in stacks)

    def finish(self) -> None:
        """Stop the query in an orderly way, and end the driver; the JVM stays, to read with."""
        with contextlib.suppress(Py4JError):
            self._query.stop()
        self.driver.end()

    def read(self, path: str) -> dict[str, Any]:
        """What is in the output: columns with their types, and rows as JSON texts."""
        try:
            frame = self.jvm.session.newSession().read().parquet(self._listed(path))
            columns = [[field.name(), field.dataType().simpleString()] for field in frame.schema().fields()]
            found = rows.texts(self.jvm.gateway, frame.limit(MOST_ROWS).toJSON())
        except Py4JError as error:
            return {"event": "unread", "text": driver.short(str(error))}
        return {"event": "read", "columns": columns, "rows": found}

    def _listed(self, path: str) -> Any:
        array = self.jvm.gateway.new_array(self.jvm.gateway.jvm.java.lang.String, 1)
        array[0] = f"file://{path}"
        return array

    def kill(self) -> None:
        """SIGKILL for all of it, and for what it has begun."""
        if self._jvm is not None:
            self._jvm.kill()
            self._jvm = None
        if self._driver is not None:
            self._driver.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def serve(given: dict[str, Any], channel: frames.Channel) -> int:
    """Lead lives as the grading process asks. Returns an exit status."""

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # of a JVM that was killed nothing can be forgotten
    root = Path(tempfile.mkdtemp(prefix="stream-", dir=os.getcwd()))
    folders = Folders(root)
    life: Life | None = None
    try:
        while (asked := channel.next()) is not None:
            what = asked.header
            try:
                if what["event"] == "live":
                    for name, text in what.get("files", ()):
                        folders.add(name, text)
                    life = Life(given, root, folders.paths)
                    life.start()
                    channel.post({"event": "done"})
                elif life is None:
                    raise RuntimeError("nothing lives")
                else:
                    channel.post(_done(what, life, folders))
            except Ended as ended:
                channel.post(ended.told)
            except (RuntimeError, OSError, Py4JError) as error:
                channel.post({"event": "failed", "text": f"{type(error).__name__}: {error}"[:500]})
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
    return life.read(str(folders.output)) | {"changed": folders.changed()}


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
    return {"event": "endless", "step": True}
