"""A Spark session of one's own, for notebooks: on the Java that is there, from the archive where there is one."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import warnings
from typing import Any

from grader.jobs.sparks import java


def session(**conf: str) -> Any:
    """The SparkSession of this process: the one that there is, or a new one on two cores, which ends with the process.

    Settings are given with "_" for each "." of their names: session(spark_sql_shuffle_partitions="4"). Raises
    RuntimeError, with one sentence, where Spark cannot be run here.
    """
    if why := java.missing():
        raise RuntimeError(f"No Spark here: {why}.")
    warnings.filterwarnings("ignore", module="pyspark")
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    folder = tempfile.mkdtemp(prefix="rankup-spark-")
    settings = {"spark.sql.shuffle.partitions": "8", "spark.driver.host": "127.0.0.1", "spark.log.level": "ERROR"}
    settings |= {name.replace("_", "."): value for name, value in conf.items()}
    gateway = java.start(java.command(folder, settings, java.prepared()), folder, os.path.join(folder, "errors"))
    os.environ.update(PYSPARK_GATEWAY_PORT=str(gateway.port), PYSPARK_GATEWAY_SECRET=gateway.secret)
    os.environ["PYSPARK_PYTHON"] = java.environment(folder, "")["PYSPARK_PYTHON"]

    spark = SparkSession.builder.getOrCreate()

    def end() -> None:
        with contextlib.suppress(Exception):  # it may have been stopped already
            spark.stop()
        assert gateway.process.stdin is not None
        gateway.process.stdin.close()  # the JVM ends with it, also where this process is killed
        gateway.process.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return spark
