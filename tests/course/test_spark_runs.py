"""Chapter 05's Spark: its own numbers, its lineage, an executor killed, a driver killed, and nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from often import on_day

from courselib import sparks

pytestmark = on_day(2)
REPOSITORY = Path(__file__).parent.parent.parent
PROGRAM = """
import json
from courselib.sparkdraw import steps
from courselib.sparklog import ran
from courselib.sparks import _home, crash, executors, kill, start, stored

told = {"home": str(_home())}
spark = start("local-cluster[2,1,512]")
sc = spark.sparkContext
pairs = sc.parallelize([(number % 10, number) for number in range(4000)], 4)
grouped, reduced = pairs.groupByKey(4).mapValues(sum), pairs.reduceByKey(int.__add__, 4)
told["bytes"] = [ran(grouped.collect).shuffled, ran(reduced.collect).shuffled]
shuffled = pairs.coalesce(2).reduceByKey(int.__add__, 3)
told["steps"] = [[step.partitions, [[wide, len(edges)] for _, wide, edges in step.parents]] for step in steps(shuffled)]
kept = pairs.mapValues(abs).cache()
first = ran(kept.count)
told["kept"] = [found[:2] for found in stored().values()]
began = executors()
on_0 = sum(task.executor == "0" for task in first.tasks)
kill("0")
told["cached after the kill"] = [found[1] for found in stored().values()]
told["cached on it"] = on_0
told["again"] = ran(kept.count).result
told["executors"] = sorted(began)
crash()
told["gone"] = sc._gateway.proc.poll() is not None
spark = start()
told["after the crash"] = spark.range(10).count()
told["processes"] = [spark.sparkContext._gateway.proc.pid, *began.values()]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_bytes_are_fewer_where_values_are_added_up_before_they_are_sent(told: dict[str, Any]) -> None:
    group, reduce = told["bytes"]
    assert 0 < reduce < group


def test_lineage_knows_narrow_from_wide(told: dict[str, Any]) -> None:
    assert told["steps"] == [[4, []], [2, [[False, 4]]], [3, [[True, 6]]]]


def test_a_killed_executor_takes_its_cached_partitions_with_it_and_they_are_made_again(told: dict[str, Any]) -> None:
    assert told["executors"] == ["0", "1"]
    assert told["kept"] == [[4, 4]]
    assert told["cached after the kill"] == [4 - told["cached on it"]]
    assert told["again"] == 4000


def test_a_driver_that_was_killed_has_a_successor(told: dict[str, Any]) -> None:
    assert told["gone"]
    assert told["after the crash"] == 10


def test_nothing_is_left_behind(told: dict[str, Any]) -> None:
    assert not Path(told["home"]).exists()
    for number in told["processes"]:
        cmdline = Path(f"/proc/{number}/cmdline")
        assert not cmdline.exists() or told["home"] not in cmdline.read_text()


def test_without_java_the_chapter_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparks.java, "missing", lambda: "there is no Java")
    with pytest.raises(sparks.BadRequest, match="this chapter runs Spark, and there is no Java"):
        sparks.start()
