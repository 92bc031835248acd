"""Runs of a submission's functions on a real Spark in its box."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grader.jobs.sparks import engine, java
from grader.jobs.sparks.engine import Day, Frame, Lines, Missing, Returned, Spark
from grader.lost import Lost
from grader.ranks.engines import Engines
from grader.submission import Submission

ROWS = '{"user": 1, "value": 2.5}\n{"user": 2, "value": null}\n{"user": 1, "value": 1.0}\n'
TABLE = Frame(ROWS, "user long, value double")

pytestmark = pytest.mark.heavy  # a JVM is started, and in a fresh checkout its archive is made first


@pytest.fixture(scope="module", autouse=True)
def _spark_is_here() -> None:
    if why := java.missing():
        pytest.skip(why)


@pytest.fixture(scope="module")
def spark(engines: Engines) -> Spark:
    return engines.lend(Spark)


def run(spark: Spark, body: str, *arguments: Any) -> Returned:
    """A call of f() with these lines."""
    names = ", ".join("abc"[: len(arguments)])
    text = f"def f({names}):\n" + "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return spark.run(Submission(text, "mine.py"), "f", arguments)


def trouble(spark: Spark, body: str, *arguments: Any) -> tuple[str, str, int | None]:
    with pytest.raises(Lost) as caught:
        run(spark, body, *arguments)
    found = caught.value.diagnosis
    return found.kind, found.message, found.line


VALUES = [
    ("return a.map(len).collect()", [Lines("one\nthree\n")], [3, 5]),
    ("return a.collect()", [Lines("x\ty\n", pairs=True)], [["x", "y"]]),
    ("return dict(a.groupBy('user').count().collect())", [TABLE], [[1, 2], [2, 1]]),
    ("return [a.year, b]", [Day("2024-02-29"), "text"], [2024, "text"]),
    ("import os; return [os.getcwd() == os.environ['HOME'], 3.5, None]", [], [True, 3.5, None]),
]


@pytest.mark.parametrize(("body", "arguments", "value"), VALUES, ids=[body[:30] for body, *_ in VALUES])
def test_a_value_comes_back(spark: Spark, body: str, arguments: list[Any], value: Any) -> None:
    got = run(spark, body, *arguments).value
    assert (sorted(got) if isinstance(value[0], list) else got) == value


def test_a_table_is_collected_by_the_supervisor_with_its_plan(spark: Spark) -> None:
    returned = run(spark, "return a.groupBy('user').agg({'value': 'sum'})", TABLE)
    assert returned.columns == [("user", "bigint"), ("sum(value)", "double")]
    assert sorted(returned.rows) == ['{"user":1,"sum(value)":3.5}', '{"user":2,"sum(value)":null}']
    assert returned.plan is not None
    names = [operator.name for operator in returned.plan.everything()]
    assert names.count("Exchange") == 1
    assert any(name.startswith("Scan json") for name in names)
    assert [job.ours for job in returned.measured.jobs] == [True]


def test_the_log_says_what_was_shuffled_read_and_kept(spark: Spark) -> None:
    body = "b = a.map(lambda x: (x, 1)).groupByKey(2).cache()\nb.count(); b.count()\nb.unpersist()\nreturn 1"
    measured = run(spark, body, Lines("a\nb\na\n" * 50)).measured
    assert len(measured.jobs) == 2
    assert 150 <= measured.total("input_records") < 150 + 4, "a split's reader looks at one line of the next"
    assert measured.total("shuffle_written_records") == measured.total("shuffle_read_records") > 0
    assert measured.cached
    assert measured.cached <= measured.unpersisted


def test_the_same_run_is_counted_the_same(spark: Spark) -> None:
    body = "return sorted(a.map(lambda x: (x, 1)).reduceByKey(lambda p, q: p + q).collect())"
    one, other = (run(spark, body, Lines("a\nb\nc\na\n" * 99)) for _ in range(2))
    assert one.value == other.value
    for what in ("shuffle_written_bytes", "shuffle_written_records", "input_records"):
        assert one.measured.total(what) == other.measured.total(what) > 0, what


ENDS = [
    ("return 1 / 0", [], "crash", "ZeroDivisionError", 2),
    ("b = a.map(int)\nreturn b.sum()", [Lines("1\nx\n")], "crash", "ValueError: invalid literal for int()", 3),
    ("def g(x):\n    return x[5]\nreturn a.map(g).collect()", [Lines("1\n")], "crash", "IndexError", 3),
    ("return a.select('nobody')", [TABLE], "crash", "nobody", 2),
    ("import os; os._exit(0)", [], "crash", "ended before the call returned", None),
    ("a.sparkSession.stop()", [TABLE], "sandbox_violation", "lent", None),
    ("a.sparkSession._jvm.java.lang.System.exit(0)", [TABLE], "sandbox_violation", "java.lang.System", None),
    ("return a.rdd._jrdd.getClass().getName()", [TABLE], "sandbox_violation", "getClass", None),
    ("a.sparkSession._jvm.java.io.File('/').list()", [TABLE], "sandbox_violation", "java.io.File", None),
    ("open('/etc/hostname-of-mine', 'w')", [], "crash", "Error", 2),
]


@pytest.mark.parametrize(("body", "arguments", "kind", "words", "line"), ENDS, ids=[body[:36] for body, *_ in ENDS])
def test_a_run_that_does_not_return_says_why(
    spark: Spark, body: str, arguments: list[Any], kind: str, words: str, line: int | None
) -> None:
    found, message, at = trouble(spark, body, *arguments)
    assert (found, at) == (kind, line)
    assert words in message


@pytest.mark.parametrize(("text", "kind"), [("def f(:", "syntax_error"), ("x = 1", "missing_function")])
def test_a_program_that_is_none_says_why(spark: Spark, text: str, kind: str) -> None:
    with pytest.raises(Lost) as caught:
        spark.run(Submission(text, "mine.py"), "f", [])
    assert caught.value.diagnosis.kind == kind


def test_nothing_is_left_for_the_next_run(spark: Spark) -> None:
    body = "import builtins\nbuiltins.left = a.cache().count()\n"
    body += "a.sparkSession.conf.set('spark.sql.shuffle.partitions', '3')\n"
    body += "a.createOrReplaceTempView('left')\na.rdd.foreach(lambda row: setattr(builtins, 'left', 1))\nreturn 1"
    run(spark, body, TABLE)
    body = "import builtins\nfound = [hasattr(builtins, 'left'), a.sparkSession.catalog.tableExists('left')]\n"
    body += "found += a.rdd.map(lambda row: hasattr(builtins, 'left')).collect()\nreturn found"
    body += " + [a.sparkSession.conf.get('spark.sql.shuffle.partitions'), a.is_cached]"
    returned = run(spark, body, TABLE)
    assert set(returned.value[:-2]) == {False}
    assert returned.value[-2:] == ["8", False]


def test_a_call_that_never_returns_is_ended(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RUN_SECONDS", 3.0)
    kind, message, _ = trouble(spark, "import time\nwhile True:\n    time.sleep(1)")
    assert kind == "timeout"
    assert "3 s" in message
    monkeypatch.undo()
    assert run(spark, "return 1").value == 1


def test_a_machine_without_java_says_so(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "missing", lambda: "there is no Java")
    with pytest.raises(Missing, match="there is no Java"):
        Spark(engines.warm).start()


def test_a_log_that_may_not_grow_any_more_costs_no_run(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark says nothing where its event log cannot be written: what is then measured of a right run is too little."""
    monkeypatch.setattr(engine, "LIMITS", replace(engine.LIMITS, file_bytes=300_000))
    body = "for _ in range({}):\n    a.map(lambda x: (x, 1)).groupByKey(2).count()\nreturn 1"
    spark = Spark(engines.warm, shared=True)
    try:
        jobs = [len(run(spark, body.format(4), Lines("a\nb\n")).measured.jobs) for _ in range(8)]
        assert jobs == [4] * 8
        kind, message, _ = trouble(spark, body.format(60), Lines("a\nb\n"))
    finally:
        spark.close()
    assert (kind, "its event log grew to 300,000 bytes" in message) == ("crash", True)
