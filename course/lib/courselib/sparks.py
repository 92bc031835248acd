"""A small Spark for a chapter: one driver with two cores, Java from a wheel, nothing on the network or on stderr.

    spark = start()                  an ordinary SparkSession; again: the old one is stopped, the same JVM is used
    spark = start("local-cluster[2,1,512]")    two executors, processes of their own
    kill(executors()["0"])           SIGKILL, and wait until the driver knows
    crash()                          SIGKILL of the driver itself: all that is not on disk is gone

What Spark itself says about a run is in its event log, which `courselib.sparklog` reads.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from grader.jobs.sparks import java
from grader.submission import BadRequest

WRAPPER = """#!/bin/bash
# the runtime of the wheel has no incubator modules; what Java says goes into a file, not into the notebook
args=() cached=()
case " $* " in *" org.apache.spark.deploy.SparkSubmit "*|*" org.apache.spark.executor."*) cached=({cached});; esac
for each in "$@"; do
  case "$each" in
    --add-modules=jdk.incubator.vector) ;;
    --add-opens=*) [ ${{#cached[@]}} != 0 ] || args+=("$each");;
    */jars/\\*) if [ ${{#cached[@]}} != 0 ]; then args+=("{jars}"); else args+=("$each"); fi;;
    *) args+=("$each");;
  esac
done
exec "{java}" "${{cached[@]}}" "${{args[@]}}" 2>> "{log}"
"""
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",  # its own threads' bytes are not in the metrics
}
PATIENCE = 100.0  # seconds that a driver has to notice that an executor is there, or dead
_crashed: list[Any] = []  # the processes of drivers that crash() has killed


def start(master: str = "local[2]", settings: dict[str, str] | None = None) -> Any:
    """A new SparkSession on `master`, with `settings` besides the small ones of this module.

    Stops the session before it. Raises BadRequest where Spark or Java is missing.
    """
    if java.missing():
        raise BadRequest(f"this chapter runs Spark, and {java.missing()}")
    from pyspark.sql import SparkSession

    _environment()
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # an error is raised, that is enough
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    stop()
    builder = SparkSession.builder.master(master).appName("rankup")
    where = {"spark.eventLog.dir": f"file://{_folder('events')}", "spark.local.dir": str(_folder("local")),
             "spark.sql.warehouse.dir": f"file://{_folder('warehouse')}"}  # fmt: skip
    for key, value in {**SETTINGS, **where, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    if cluster := re.match(r"local-cluster\[(\d+)", master):
        status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus
        _until(lambda: status().size() > int(cluster[1]), "its executors")  # the driver is in it, too
    vars(spark.sparkContext._accumulatorServer)["handle_error"] = lambda *_: None  # of a driver that is killed
    return spark


def stop() -> None:
    """Stop the session that runs, if there is one; its JVM stays for the next."""
    context = active()
    if context is not None and context._gateway.proc in _crashed:
        context._gateway.proc.wait()  # a killed JVM takes a moment, and until then it looks alive
    if context is not None and context._gateway.proc.poll() is None:
        context.stop()
    elif context is not None:
        _forget(context)


def _forget(context: Any) -> None:
    """Let go of a driver that is dead."""
    from pyspark.sql import SparkSession

    with contextlib.suppress(Exception):
        context._gateway.shutdown()
    kind = type(context)
    kind._gateway = kind._jvm = kind._active_spark_context = None
    SparkSession._instantiatedSession = None


def active() -> Any | None:
    """The SparkContext that runs, or None."""
    pyspark = sys.modules.get("pyspark")
    return pyspark.SparkContext._active_spark_context if pyspark else None


def event_log() -> Path:
    """The file in which the running application writes its events. Raises BadRequest where none runs."""
    context = active()
    if context is None:
        raise BadRequest("no Spark is running here: start() one")
    return _folder("events") / f"{context.applicationId}.inprogress"


def settle() -> None:
    """Wait until all events so far are in the event log."""
    context = active()
    if context is not None:
        context._jsc.sc().listenerBus().waitUntilEmpty()


def executors() -> dict[str, int]:
    """The process of each executor of a local cluster, by the executor's id."""
    context = active()
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and context is not None:
            try:
                words = (folder / "cmdline").read_text().split("\0")
            except OSError:
                continue
            if "--executor-id" in words and context.applicationId in words:
                found[words[words.index("--executor-id") + 1]] = int(folder.name)
    return dict(sorted(found.items()))


def kill(executor: str) -> None:
    """SIGKILL an executor, and wait until the driver has taken note. Raises BadRequest for one that does not run."""
    running = executors()
    if executor not in running:
        raise BadRequest(f"there is no executor {executor!r}: {', '.join(running) or 'none'} run here")
    os.kill(running[executor], signal.SIGKILL)
    told = '"Event":"SparkListenerExecutorRemoved"'
    _until(lambda: any(told in line and f'"Executor ID":"{executor}"' in line for line in _lines()), "its death")


def crash() -> None:
    """SIGKILL the driver's JVM, as a machine that dies would end it; the next start() makes a new one."""
    context = active()
    if context is not None:
        _quiet()
        _crashed.append(context._gateway.proc)
        context._gateway.proc.kill()
        context._gateway.proc.wait()


def _quiet() -> None:
    """Let py4j not say, to two loggers, that the other side is gone."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_expected)


def _expected(record: logging.LogRecord) -> bool:
    return "while sending command" not in record.getMessage()


def stored() -> dict[int, tuple[int, int, int, int]]:
    """Of each RDD that is kept: partitions, those of them that are there, bytes in memory, bytes on disk."""
    context = active()
    infos = context._jsc.sc().getRDDStorageInfo() if context is not None else ()
    return {
        info.id(): (info.numPartitions(), info.numCachedPartitions(), info.memSize(), info.diskSize()) for info in infos
    }


def scratch(name: str) -> Path:
    """A new folder for the chapter's files, gone when its kernel ends."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_folder("scratch")))


def _lines() -> list[str]:
    settle()
    return event_log().read_text().splitlines()


def _until(seen: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not seen():
        if time.monotonic() > end:
            raise TimeoutError(f"the driver did not see {what} within {PATIENCE:g} s")
        time.sleep(0.1)


@cache
def _home() -> Path:
    home = Path(tempfile.mkdtemp(prefix="rankup-chapter-"))
    atexit.register(_end, home)
    return home


def _end(home: Path) -> None:
    """Nothing is left behind: the JVM, with which its executors and workers end, and its files.

    It is killed and not stopped: a kernel has few seconds before it is killed itself, and would leave its files.
    """
    pyspark = sys.modules.get("pyspark")
    gateway = pyspark.SparkContext._gateway if pyspark else None
    if gateway is not None and gateway.proc.poll() is None:
        _quiet()
        gateway.proc.kill()
        gateway.proc.wait()
    shutil.rmtree(home, ignore_errors=True)


def _folder(name: str) -> Path:
    folder = _home() / name
    folder.mkdir(exist_ok=True)
    return folder


@cache
def _environment() -> None:
    """Java, the Python of the workers, and an address that no one else sees, for the JVM that is started next."""
    found = java.find()
    assert found is not None  # else it would be missing
    program = _folder("java") / "bin" / "java"
    program.parent.mkdir(exist_ok=True)
    program.write_text(WRAPPER.format(java=found.program, log=_home() / "java.log", **_from_cache()))
    program.chmod(0o755)
    os.environ.update(JAVA_HOME=str(program.parent.parent), SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    os.environ["SPARK_LAUNCHER_OPTS"] = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # of the JVM that reads the settings
    os.environ.pop("SPARK_HOME", None)


def _from_cache() -> dict[str, str]:
    """The options with which drivers and executors start from the graders' cache of loaded classes, if it is there.

    Java takes the cache only if the jars and the opened packages are those with which it was made.
    """
    cache, home = java.archive(), java.spark_home()
    if cache is None or home is None or not cache.exists():
        return {"cached": "", "jars": ""}
    options = [f"-XX:AOTCache={cache}", "-Xlog:disable", "-Djdk.reflect.useDirectMethodHandle=false", *java.opened()]
    return {"cached": shlex.join(options), "jars": java.jars(home)}
