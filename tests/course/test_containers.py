"""Chapter 05's executors in containers: the size that Spark would ask for, and why each one ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from often import on_day

from courselib.containers import limit

REPOSITORY = Path(__file__).parent.parent.parent
PROGRAM = """
import json, time
from courselib.containers import ONCE, contained, limit
from courselib.sparks import start
from pyspark.sql import functions as F

def hold(rows):
    held = b"x" * 700_000_000
    time.sleep(1)
    yield len(held)

def python():
    return sc.parallelize([0], 1).mapPartitions(hold).collect()[0]

def one_list():
    text = F.repeat(F.format_string("%05d", "id"), 1_000_000)
    events = spark.range(0, 30, 1, 1).groupBy(F.lit("guest").alias("user"))
    return events.agg(F.collect_list(text).alias("all")).select(F.size("all")).first()[0]

def asked():
    package = "org.apache.spark.resource.ResourceProfile$"
    profiles = getattr(getattr(sc._jvm, package), "MODULE$")
    nothing = getattr(getattr(sc._jvm, "scala.collection.immutable.Map$"), "MODULE$").empty()
    conf = sc.getConf()._jconf
    profile = profiles.getOrCreateDefaultProfile(conf)
    found = profiles.getResourcesForClusterManager(
        profile.id(), profile.executorResources(), 384, 0.1, conf, True, nothing)
    parts = found.executorMemoryMiB(), found.memoryOverheadMiB(), found.pysparkMemoryMiB(), found.totalMemMiB()
    return [list(parts), list(limit(sc.getConf()).values())]

told = {}
spark = start("local-cluster[1,1,512]", {**ONCE, "spark.executor.memory": "512m"})
sc = spark.sparkContext
told["small"] = [vars(contained(job)) for job in (python, one_list)]
told["asked"] = [asked()]
spark = start("local-cluster[1,1,1536]",
              {**ONCE, "spark.executor.memory": "1536m", "spark.executor.pyspark.memory": "600m"})
sc = spark.sparkContext
told["limited"] = [vars(contained(job)) for job in (python, one_list)]
told["asked"].append(asked())
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@on_day(3)
def test_python_beside_the_heap_gets_the_container_killed(told: dict[str, Any]) -> None:
    python = told["small"][0]
    assert (python["limit"], python["task"]) == (896, "ExecutorLostFailure")
    assert python["executor"] == "exit code 137 (SIGKILL)"
    assert python["jvm"] < 512 < python["python"]


@on_day(3)
def test_a_list_that_is_larger_than_the_heap_ends_the_jvm(told: dict[str, Any]) -> None:
    one_list = told["small"][1]
    assert one_list["task"].startswith("OutOfMemoryError: Java heap space")
    assert one_list["executor"] == "exit code 52 (out of heap)"
    assert one_list["jvm"] + one_list["python"] <= one_list["limit"]


@on_day(3)
def test_with_a_limit_of_its_own_python_fails_and_the_executor_lives(told: dict[str, Any]) -> None:
    python, one_list = told["limited"]
    assert (python["task"], python["executor"]) == ("MemoryError in Python", "lives")
    assert (one_list["result"], one_list["executor"]) == (30, "lives")


@on_day(3)
def test_a_container_is_as_large_as_spark_itself_says(told: dict[str, Any]) -> None:
    for spark_says, ours in told["asked"]:
        assert spark_says == ours


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, [1024, 384, 0, 1408]),
        ({"spark.executor.memory": "16g"}, [16384, 1638, 0, 18022]),
        ({"spark.executor.memory": "8g", "spark.executor.memoryOverhead": "2g"}, [8192, 2048, 0, 10240]),
        ({"spark.executor.memory": "512m", "spark.executor.pyspark.memory": "1g"}, [512, 384, 1024, 1920]),
        ({"spark.executor.memoryOverheadFactor": "0.4", "spark.executor.memory": "10g"}, [10240, 4096, 0, 14336]),
    ],
)
def test_the_parts_of_a_container(settings: dict[str, str], parts: list[int]) -> None:
    assert list(limit(settings).values()) == parts
