"""The gate between a learner's driver and the JVM: which of Py4J's orders it passes on."""

from __future__ import annotations

import pytest

from grader.jobs.sparks.py4j_filter import refusal

PASSED = [
    ["c", "o3", "collect", "e"],
    ["c", "z:org.apache.spark.api.python.PythonRDD", "collectAndServe", "ro4", "e"],
    ["i", "org.apache.spark.api.python.PythonFunction", "e"],
    ["i", "java.util.ArrayList", "e"],
    ["c", "z:scala.jdk.javaapi.CollectionConverters", "asJava", "ro4", "e"],
    ["r", "u", "org", "rj", "e"],
    ["r", "u", "PythonUtils", "rj", "e"],
    ["r", "m", "org.apache.spark.sql.functions", "col", "e"],
    ["f", "g", "o3", "name", "e"],
    ["m", "d", "o12", "e"],
    ["j", "i", "rj", "sorg.apache.spark.api.java.*", "e"],
]
REFUSED = [
    (["s", "e"], "shut down"),
    (["c", "o7", "stop", "e"], "lent"),
    (["c", "o3", "getClass", "e"], "getClass"),
    (["c", "o3", "listenerBus", "e"], "listenerBus"),
    (["c", "z:java.lang.System", "exit", "i0", "e"], "java.lang.System"),
    (["c", "z:java.lang.Runtime", "getRuntime", "e"], "java.lang.Runtime"),
    (["c", "z:java.io.File", "listRoots", "e"], "java.io.File"),
    (["i", "java.io.FileWriter", "s/tmp/x", "e"], "java.io.FileWriter"),
    (["i", "java.lang.ProcessBuilder", "e"], "java.lang.ProcessBuilder"),
    (["i", "org.apache.spark.scheduler.SparkListenerUnpersistRDD", "i1", "e"], "scheduler"),
    (["i", "javax.script.ScriptEngineManager", "e"], "javax.script"),
    (["r", "u", "java.lang.Runtime", "rj", "e"], "java.lang.Runtime"),
    (["r", "m", "java.nio.file.Files", "write", "e"], "java.nio"),
    (["r", "m", "org.apache.spark.SparkEnv", "get", "e"], "SparkEnv"),
    (["c", "z:scala.io.Source", "fromFile", "e"], "scala.io.Source"),
    (["c", "z:scala.sys.process.Process", "apply", "e"], "scala.sys"),
    (["f", "g", "o3", "listenerBus", "e"], "listenerBus"),
]


@pytest.mark.parametrize("order", PASSED, ids=" ".join)
def test_what_pyspark_asks_for_is_passed_on(order: list[str]) -> None:
    assert refusal(order) == ""


@pytest.mark.parametrize(("order", "words"), REFUSED, ids=[" ".join(order) for order, _ in REFUSED])
def test_what_reaches_further_is_refused_in_words(order: list[str], words: str) -> None:
    assert words in refusal(order)
