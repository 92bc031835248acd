"""A JVM with one SparkContext, in a box, and the drivers that are lent a session of it."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject

from grader.jobs import start
from grader.jobs.sparks import driver, java, py4j_filter
from grader.sandbox import usage

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
_PATH = os.environ.get("PYTHONPATH", "")


class Jvm:
    """It keeps all that it writes in `folder`. Raises RuntimeError and Py4JError where it does not start."""

    def __init__(self, folder: Path, conf: dict[str, str], options: list[str]) -> None:
        self.folder, self.tasks = folder, folder / "tasks"
        self.tasks.mkdir()
        (folder / f"{DAEMON}.py").write_text(DAEMON_SOURCE)
        os.environ["RANKUP_TASKS"] = str(self.tasks)
        os.environ["TZ"] = "UTC"  # of the JVM, of drivers and of tasks: a machine's time zone decides no verdict
        time.tzset()
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), _PATH]))
        self.started = java.start(java.command(str(folder), conf, options), str(folder), str(folder / "errors"))
        parameters = GatewayParameters(
            port=self.started.port, auth_token=self.started.secret, auto_convert=True
        )  # fmt: skip
        self.gateway = JavaGateway(gateway_parameters=parameters)
        spark = self.gateway.jvm.org.apache.spark
        self.context = spark.api.java.JavaSparkContext(spark.SparkConf())
        self.session = spark.sql.classic.SparkSession(self.context.sc())

    @property
    def pid(self) -> int:
        return self.started.process.pid

    def object(self, name: str) -> Any:
        """The object that a driver knows by this name."""
        return JavaObject(name, self.gateway._gateway_client)

    def processes(self, depth: int = 0) -> list[int]:
        """Those below it; with `depth`, only those so many steps below."""
        with usage.machine() as folder:
            parents = {each.pid: each.parent for each in usage.everybody(folder)}
        above = {pid: list(_above(pid, parents)) for pid in parents}
        return [pid for pid in parents if self.pid in (above[pid][depth - 1 : depth] if depth else above[pid])]

    def kill(self) -> None:
        """SIGKILL, also for all below it."""
        below = self.processes()
        self.started.process.kill()
        self.started.process.wait()
        end(below)
        assert self.started.process.stdin is not None
        self.started.process.stdin.close()


class Driver:
    """A learner's driver, and the filter through which it reaches a session."""

    def __init__(self, jvm: Jvm, session: Any, asked: dict[str, Any], files: Path, own: Path) -> None:
        """It finds its arguments' files in `files`, and may write in `own`."""
        token, (self._refusals, refused) = secrets.token_hex(16), os.pipe()
        os.set_blocking(self._refusals, False)
        self._filter, port = py4j_filter.fork(jvm.started.port, jvm.started.secret, token, refused)
        self.pid, self._channel = driver.fork(asked, str(files), str(own), port, token, session._target_id)
        os.close(refused)
        self._ended = False

    def heard(self, seconds: float) -> dict[str, Any]:
        """What it says of a call; that it says nothing, where it does not within so many seconds."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and select.select([self._channel.end], [], [], left)[0]:
            messages = self._channel.read()
            if messages is None:
                return {"event": "died"}
            if messages:
                return dict(messages[0].header)
        return {"event": "endless"}

    def call_again(self) -> None:
        self._channel.post({})

    def refused(self) -> list[str]:
        """What the filter has refused since this was last asked."""
        try:
            return os.read(self._refusals, 4096).decode(errors="replace").splitlines()[:5]
        except BlockingIOError:
            return []

    def end(self) -> None:
        """Kill both processes."""
        if self._ended:
            return
        self._ended = True
        self._channel.end.close()
        pids = [self.pid, self._filter]
        end(pids)
        for pid in pids:
            os.waitpid(pid, 0)
        os.close(self._refusals)


def end(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _above(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """A process's parent, the parent's, and so on."""
    while (pid := parents.get(pid, 0)) > 1:
        yield pid
