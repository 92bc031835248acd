"""What is told of a DataFrame that a submission returned: the plan that was executed, and settings that changed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from often import on_day

from grader.jobs.sparks import java
from grader.jobs.sparks.engine import Frame, Operator, Returned, Spark
from grader.lost import Lost
from grader.ranks.engines import Engines
from grader.submission import Submission

pytestmark = on_day(2)

LEFT = Frame('{"k": 1}\n{"k": 2}\n{"k": 1}\n', "k long")
RIGHT = Frame('{"k": 1, "name": "a"}\n{"k": 2, "name": "b"}\n', "k long, name string")


@pytest.fixture(scope="module", autouse=True)
def _spark_is_here() -> None:
    if why := java.missing():
        pytest.skip(why)


@pytest.fixture(scope="module")
def spark(engines: Engines) -> Spark:
    return engines.lend(Spark)


def run(spark: Spark, body: str, conf: Mapping[str, str] | None = None) -> Returned:
    """A call of f(a, b) with these lines."""
    text = "def f(a, b):\n" + "\n".join(f"    {line}" for line in body.splitlines())
    return spark.run(Submission(text, "mine.py"), "f", [LEFT, RIGHT], conf=conf)


def operators(returned: Returned, name: str) -> list[Operator]:
    assert returned.plan is not None
    return [operator for operator in returned.plan.everything() if operator.name.startswith(name)]


def test_a_scan_says_which_argument_it_reads_and_an_operator_how_many_rows_it_put_out(spark: Spark) -> None:
    returned = run(spark, "return a.join(b.hint('broadcast'), 'k')")
    assert sorted(scan.argument for scan in operators(returned, "Scan json") if scan.argument is not None) == [0, 1]
    assert [broadcast.rows for broadcast in operators(returned, "BroadcastExchange")] == [2]
    assert [join.rows for join in operators(returned, "BroadcastHashJoin")] == [3]


HIDDEN = {
    "below a cache": "c = a.groupBy('k').count().cache()\nc.count()\nreturn c",
    "below a subquery": "a.createOrReplaceTempView('t')\nreturn a.sparkSession.sql('select (select max(k) from t)')",
    "in an adaptive plan": "a.sparkSession.conf.set('spark.sql.adaptive.enabled', 'true')\nreturn a.distinct()",
}


@pytest.mark.parametrize("body", HIDDEN.values(), ids=HIDDEN)
def test_an_exchange_is_seen(spark: Spark, body: str) -> None:
    returned = run(spark, body)
    assert operators(returned, "Exchange")
    assert [scan.argument for scan in operators(returned, "Scan json")] == [0]


def test_rows_from_elsewhere_are_a_leaf_without_an_argument(spark: Spark) -> None:
    returned = run(spark, "return a.sparkSession.createDataFrame(a.collect(), a.schema)")
    assert returned.plan is not None
    assert [leaf.argument for leaf in returned.plan.everything() if not leaf.children] == [None]
    assert [job.ours for job in returned.measured.jobs].count(False) == 1


def test_what_is_written_to_files_is_counted(spark: Spark) -> None:
    returned = run(spark, "a.write.json('copy')\nreturn a.sparkSession.read.schema(a.schema).json('copy')")
    assert returned.measured.total("written_records") == 3
    assert {scan.argument for scan in operators(returned, "Scan json")} == {None}


def test_a_session_has_the_settings_that_a_run_asks_for_and_says_which_were_changed(spark: Spark) -> None:
    name = "spark.sql.autoBroadcastJoinThreshold"
    kept = run(spark, "return a.join(b, 'k')", {name: "-1"})
    assert operators(kept, "SortMergeJoin")
    assert kept.changed == {}
    changed = run(spark, f"a.sparkSession.conf.set('{name}', '1m')\nreturn a", {name: "-1"})
    assert changed.changed == {name: "1m"}
    assert operators(run(spark, "return a.join(b, 'k')"), "BroadcastHashJoin")


def test_python_may_not_read_what_the_jvm_is_given(spark: Spark) -> None:
    with pytest.raises(Lost) as caught:
        run(spark, "path = a.inputFiles()[0].removeprefix('file://')\nopen(path).read()\nreturn a")
    assert "Permission" in caught.value.diagnosis.message


def test_what_a_submission_writes_is_gone_in_the_next_run(spark: Spark) -> None:
    for _ in range(2):
        run(spark, "a.write.json('copy')\nreturn a")


@pytest.mark.heavy
def test_who_writes_over_what_was_given_is_refused(engines: Engines) -> None:
    spark = Spark(engines.warm)
    with pytest.raises(Lost) as caught:
        run(spark, "b.select('k').write.mode('overwrite').json(a.inputFiles()[0])\nreturn a")
    spark.close()
    assert caught.value.diagnosis.kind == "sandbox_violation"
    assert "write over" in caught.value.diagnosis.message


def test_local_time_is_utc(spark: Spark) -> None:
    body = "import datetime\nreturn [datetime.datetime.fromtimestamp(0).isoformat()]"
    assert run(spark, body).value == ["1970-01-01T00:00:00"]
