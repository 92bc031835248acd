"""What is said of plans, columns and tasks, of plans that are made by hand: no Spark runs here."""

from __future__ import annotations

import random
from typing import Any

import pytest

from grader.exercise import Exercise
from grader.exercises import spark_skew
from grader.exercises.common import spark_tables as tables
from grader.exercises.spark_features import events as features
from grader.exercises.spark_skew import skewed as skew
from grader.jobs.sparks.bench import SparkBench
from grader.jobs.sparks.engine import Operator, Returned
from grader.jobs.sparks.measured import Job, Measured, Stage, Task
from grader.registry import find
from grader.submission import Submission
from grader.verdict import Diagnosis

BENCH = SparkBench(None, Submission("", "mine.py"), 1)  # type: ignore[arg-type]  # these judges run nothing


def asked(judge: Any, returned: Returned) -> Diagnosis | None:
    found: Diagnosis | None = judge(returned)
    return found


def op(
    name: str, *children: Operator, rows: int | None = None, argument: int | None = None, text: str = ""
) -> Operator:
    return Operator(name, text or f"{name} k#12L", children, rows, argument)


SCAN = op("Scan json ", argument=0)


def returned(plan: Operator, measured: Measured | None = None, *columns: tuple[str, str]) -> Returned:
    return Returned("DataFrame", None, measured or Measured(), list(columns), [], plan)


PLANS = [
    ("a plain scan", op("Project", SCAN), ""),
    ("a range", op("Join", SCAN, op("Range", rows=5000)), ""),
    ("a small table", op("Join", SCAN, op("LocalTableScan", rows=16)), ""),
    ("one that is used again", op("Join", SCAN, op("ReusedExchange")), ""),
    ("a large table", op("Join", SCAN, op("LocalTableScan", rows=17)), "LocalTableScan"),
    ("an RDD nobody counted", op("Scan ExistingRDD"), "ExistingRDD"),
    ("a file of nobody's", op("Scan json ", rows=3), "Scan json"),
    ("a row function", op("BatchEvalPython", SCAN), "BatchEvalPython"),
    ("an Arrow function", op("ArrowEvalPython", SCAN), "ArrowEvalPython"),
    ("a group function", op("FlatMapGroupsInPandas", SCAN), "FlatMapGroupsInPandas"),
    ("a map", op("Project", op("MapInArrow", SCAN)), "MapInArrow"),
    ("a script", op("ScriptTransformation", SCAN), "ScriptTransformation"),
]


@pytest.mark.parametrize(("plan", "named"), [row[1:] for row in PLANS], ids=[row[0] for row in PLANS])
def test_all_is_done_in_spark(plan: Operator, named: str) -> None:
    found = asked(tables.all_in_spark(BENCH, "big", 16, actions=False), returned(plan))
    assert (found.kind if found else "") == ("forbidden_call" if named else "")
    assert named in (found.message if found else "")
    assert "#12" not in (found.message if found else "")


def measured(ours: bool, name: str, written: int = 0) -> Measured:
    stage = Stage(3, name, tasks=[Task(written_records=written)])
    return Measured([Job(0, [3], ours)], {3: stage})


def test_an_action_is_named_with_its_line() -> None:
    judge = tables.all_in_spark(BENCH, "big", 16, actions=False)
    found = asked(judge, returned(SCAN, measured(False, "count at mine.py:7")))
    assert found is not None
    assert (found.kind, found.line, "count" in found.message) == ("forbidden_call", 7, True)
    assert asked(judge, returned(SCAN, measured(True, "collectAsList at <unknown>:0"))) is None
    allowed = tables.all_in_spark(BENCH, "big", 16, actions=True)
    assert asked(allowed, returned(SCAN, measured(False, "count at mine.py:7"))) is None
    written = asked(allowed, returned(SCAN, measured(False, "json at mine.py:7", 5)))
    assert written is not None
    assert "5 records were written" in written.message


def test_exchanges_are_counted_and_told_by_what_they_are_by() -> None:
    exchange = op("Exchange", SCAN, text="Exchange hashpartitioning(k#1L, 8), ENSURE_REQUIREMENTS, [plan_id=7]")
    plan = op("Join", exchange, op("Exchange", op("ReusedExchange")), op("BroadcastExchange", exchange))
    judge = tables.too_many_exchanges(BENCH, "big", 3, "Group once.")
    assert asked(judge, returned(plan)) is None
    stricter = tables.too_many_exchanges(BENCH, "big", 2, "Group once.")
    found = asked(stricter, returned(plan))
    assert found is not None
    assert "3 exchanges" in found.message
    assert "2 times hashpartitioning(k, 8)" in found.message


COLUMNS = [
    ([("k", "bigint"), ("v", "double")], ""),
    ([("v", "decimal(10,2)"), ("k", "int")], ""),
    ([("k", "bigint")], "no column v"),
    ([("k", "bigint"), ("k", "bigint"), ("v", "double")], "two columns k"),
    ([("k", "bigint"), ("v", "double"), ("salt", "int")], "a column salt, which was not asked for"),
    ([("k", "string"), ("v", "double")], "k has the type string, but must be a whole number"),
    ([("k", "bigint"), ("v", "bigint")], "v has the type bigint, but must be a number"),
]


@pytest.mark.parametrize(("got", "words"), COLUMNS, ids=[words or f"right {len(got)}" for got, words in COLUMNS])
def test_columns(got: list[tuple[str, str]], words: str) -> None:
    judge = tables.columns_wrong(BENCH, "big", {"k": "a whole number", "v": "a number"})
    found = asked(judge, returned(SCAN, None, *got))
    assert words in found.message if found else not words


def test_what_is_no_dataframe_is_named() -> None:
    judge = tables.no_frame(BENCH, "big")
    for value, words in (
        (Returned("list", [], Measured()), "a list"),
        (Returned("NoneType", None, Measured()), "nothing"),
    ):
        found = asked(judge, value)
        assert found is not None
        assert f"returned {words}" in found.message


def test_features_of_events_made_by_hand() -> None:
    def event(number: int, kind: str, category: str | None, value: float | None, time: str) -> features.Event:
        return {"event_id": f"e{number}", "user_id": 7, "event_type": kind, "category": category, "value": value,
                "timestamp": f"2024-03-{time}Z"}  # fmt: skip

    bought = event(3, "purchase", "toys", 30.0, "04T23:50:00.000")
    events = (
        event(1, "view", "toys", None, "02T12:00:00.000"),
        event(2, "view", "books", None, "03T12:00:00.000"),
        bought,
        bought,
        event(4, "purchase", None, None, "10T23:59:59.999"),
        event(5, "purchase", "toys", 90.0, "11T00:00:00.000"),
    )
    given = features.Given(events, features.datetime.date(2024, 3, 10))
    assert list(features.right(given)[7].values()) == [7, 5, 2, 30.0, 0, 2, "books"]


@pytest.mark.parametrize("seed", range(5))
def test_events_have_all_that_they_are_to_have(seed: int) -> None:
    given = features.many(random.Random(seed), 60, 600)
    rows = list(features.right(given).values())
    assert len(rows) == 60
    assert {row["total_purchases"] == 0 for row in rows} == {True, False}
    assert any(row["total_purchases"] and row["avg_purchase_value"] is None for row in rows)
    assert any(row["viewed_categories"] == 0 for row in rows)
    assert len({(each["event_id"], each["timestamp"]) for each in given.events}) < len(given.events)
    around = features.around(random.Random(seed), 40)
    assert 0 < len(features.right(around)) < 40
    assert any(row["days_since_last_purchase"] == 0 for row in features.right(around).values())


@pytest.mark.parametrize("seed", range(5))
def test_half_of_the_events_are_one_users_and_keys_lead_nowhere(seed: int) -> None:
    given = skew.drawn(random.Random(seed), 1000, 50, 6)
    assert 480 <= given.hot_events <= 560
    right = skew.right(given)
    assert any(row[1] == given.hot for row in right)
    assert max(right.values()) > 1
    assert given.hot_events < right.total() < len(given.events)
    assert any(event["user_id"] is None for event in given.events)
    assert any(user["country"] is None for user in given.users)


def test_the_one_users_events_come_last_or_the_user_is_unknown() -> None:
    given = skew.drawn(random.Random(1), 1000, 50, 6, late=True, unknown=True)
    assert given.without_hot + given.hot_events == len(given.events)
    assert not given.knows(given.hot)
    assert all(row[1] != given.hot for row in skew.right(given))


SHARES = [
    ("even", [900] * 8, ""),
    ("three times", [2700] + [900] * 7, ""),
    ("one is long", [6900] + [800] * 7, "8.6 times as many"),
    ("half are empty", [3000] * 3 + [0] * 5, "the median is 0"),
    ("all in one", [13000], "no fewer than"),
    ("all are long", [9000] * 8, "no fewer than"),
]


@pytest.mark.parametrize(("shares", "words"), [row[1:] for row in SHARES], ids=[row[0] for row in SHARES])
def test_shares_of_tasks(shares: list[int], words: str) -> None:
    tasks = [Task(shuffle_read_records=share) for share in shares] + [Task(input_records=12000)]
    run = Measured([Job(0, [4], True)], {4: Stage(4, "join", tasks=tasks)})
    judge = spark_skew._uneven(BENCH, spark_skew.ALL)
    found = asked(judge, returned(SCAN, run))
    assert (found.kind if found else "") == ("no_overlap" if words else "")
    assert words in (found.message if found else "")


@pytest.mark.parametrize("exercise", [find("spark_features"), find("spark_skew")], ids=lambda each: each.name)
def test_points_are_twenty(exercise: Exercise) -> None:
    assert exercise.max_points == 20
