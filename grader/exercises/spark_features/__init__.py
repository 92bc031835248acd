"""user_features(events_df, as_of) -> DataFrame: the features of a user, from events, without Python for rows.

Spark's manual, "Spark SQL, DataFrames and Datasets guide". Compared with what is right of the events that were drawn;
the physical plan, as it was executed, says whether Python had rows in hand and how often rows were shuffled.
"""

from __future__ import annotations

import math
from typing import Any

from grader.exercise import Check, Exercise
from grader.exercises.common import spark_tables as tables
from grader.exercises.common.spark_tables import Judge
from grader.exercises.spark_features import events as cases
from grader.exercises.spark_features.events import Given
from grader.jobs.sparks.bench import SparkBench
from grader.jobs.sparks.engine import Returned
from grader.trace.gantt import Chart
from grader.verdict import Diagnosis
from grader.worlds.spark import Spark

MOST_EXCHANGES = 4
OWN_ROWS = 16  # a table that a submission makes itself, such as as_of in one row
MANY = "4,000 events of 300 users"
AROUND = "events around the end of as_of"
NONE = "no event at all"


def _given(bench: SparkBench, label: str) -> Given:
    if label == NONE:
        return cases.none()
    rng = bench.rng(label)
    return cases.many(rng, 300, 3000) if label == MANY else cases.around(rng, 40)


def _held(bench: SparkBench, label: str, *judges: Judge) -> Chart:
    returned = bench.run(label, "user_features", *_given(bench, label).arguments)
    return bench.hold(label, returned, tables.no_frame(bench, label), *judges)


# ---- what must hold


def _users_wrong(bench: SparkBench, label: str) -> Judge:
    right = cases.right(_given(bench, label))

    def judge(returned: Returned) -> Diagnosis | None:
        rows = cases.by_user(tables.rows(returned))
        expected = f"{len(right)} rows"
        got = f"{len(returned.rows)} rows"
        found = bench.found
        missing = [user for user in right if user not in rows]
        if missing:
            row = right[missing[0]]
            message = (
                f"{label}: {len(missing)} of {len(right)} users have no row. User {missing[0]} is one of them, with {row['total_events']} "
                f"events, {row['total_purchases']} purchases and {row['viewed_categories']} viewed categories. Return a row "
                "for every user with an event up to the end of as_of. Left-join what not every user has."
            )
            return found("wrong_result", message, expected, got)
        for user, theirs in rows.items():
            if user not in right:
                message = f"{label}: user {tables.named(str(user))} has a row, but no event up to the end of as_of. Filter the events first."
                return found("wrong_result", message, expected, got)
            if len(theirs) > 1:
                message = (
                    f"{label}: user {user} has {len(theirs)} rows instead of one. Break ties between categories, and join "
                    "only what has one row for each user."
                )
                return found("wrong_result", message, expected, got)
        return None

    return judge


def _values_wrong(bench: SparkBench, label: str, *columns: str) -> Judge:
    """These columns, of the users who are there."""
    given = _given(bench, label)
    right, numbers = cases.right(given), tables.types_wrong(bench, label, {"user_id": cases.COLUMNS["user_id"]})

    def judge(returned: Returned) -> Diagnosis | None:
        found = bench.found
        names = [name for name, _ in returned.columns]
        for column in ("user_id", *columns):
            if names.count(column) != 1:
                message = (
                    f"{label}: the result has {'no column' if column not in names else 'several columns'} {column}."
                )
                return found("wrong_result", message, column, ", ".join(map(tables.named, names)))
        rows = [row for row in tables.rows(returned) if cases.user_of(row) in right]
        if right and not rows:
            if (wrong := numbers(returned)) is not None:
                return wrong
            return found("wrong_result", f"{label}: the result has no row for any user.", f"{len(right)} rows", "none")
        for column in columns:
            bad = [row for row in rows if not _same(row.get(column), right[row["user_id"]][column])]
            if bad:
                worst = min(bad, key=lambda row: (right[row["user_id"]]["total_events"], row["user_id"]))
                user = worst["user_id"]
                got, expected = _told(worst.get(column)), _told(right[user][column])
                message = (
                    f"{label}: {column} is wrong for {len({row['user_id'] for row in bad})} of {len(right)} users. For user {user} it is {got} instead of "
                    f"{expected}. {cases.why(given, user, column)}"
                )
                return found("wrong_result", message, expected, got)
        return None

    return judge


def _same(got: Any, right: Any) -> bool:
    if isinstance(right, float) or (isinstance(right, int) and isinstance(got, float)):
        known = isinstance(got, int | float) and not isinstance(got, bool)
        return known and math.isclose(got, right, rel_tol=1e-6, abs_tol=1e-9)
    return type(got) is type(right) and bool(got == right)


def _told(value: Any) -> str:
    return "null" if value is None else f"{value:.6g}" if isinstance(value, float) else tables.named(str(value))


# ---- the checks


def _users(bench: SparkBench) -> Chart:
    for label in (NONE, MANY):
        picture = _held(bench, label, tables.columns_wrong(bench, label, cases.COLUMNS), _users_wrong(bench, label))
    return picture


def _totals(bench: SparkBench) -> Chart:
    return _held(bench, MANY, _values_wrong(bench, MANY, "total_events", "total_purchases"))


def _purchases(bench: SparkBench) -> Chart:
    return _held(bench, MANY, _values_wrong(bench, MANY, "avg_purchase_value", "days_since_last_purchase"))


def _views(bench: SparkBench) -> Chart:
    return _held(bench, MANY, _values_wrong(bench, MANY, "viewed_categories", "favorite_category"))


def _as_of(bench: SparkBench) -> Chart:
    counted = _values_wrong(bench, AROUND, "total_events", "total_purchases", "viewed_categories")
    dated = _values_wrong(bench, AROUND, "days_since_last_purchase", "avg_purchase_value", "favorite_category")
    return _held(bench, AROUND, counted, dated, _users_wrong(bench, AROUND))


def _in_spark(bench: SparkBench) -> Chart:
    columns = tables.missing(bench, MANY, cases.COLUMNS)
    return _held(bench, MANY, columns, tables.all_in_spark(bench, MANY, OWN_ROWS, actions=False))


def _exchanges(bench: SparkBench) -> Chart:
    hint = (
        "Compute all features of the same key in one groupBy(...).agg(...), each with its condition in F.when. Tables that "
        "are already partitioned by user_id are joined on it without another exchange."
    )
    columns = tables.missing(bench, MANY, cases.COLUMNS)
    return _held(bench, MANY, columns, tables.too_many_exchanges(bench, MANY, MOST_EXCHANGES, hint))


EXERCISE = Exercise(
    name="spark_features",
    chapter="05",
    title="A user's features from events",
    minutes=50,
    difficulty=2,
    cost="tens of seconds",
    world=Spark(("user_features",)),
    checks=(
        Check("users", "One row for each user, and the columns", 2, _users),
        Check("totals", "Events and purchases counted", 3, _totals),
        Check("purchases", "Average value, and days since the last purchase", 3, _purchases),
        Check("views", "Categories viewed, and the favourite", 4, _views),
        Check("as_of", "What came later does not exist yet", 3, _as_of),
        Check("in_spark", "No Python, no action, no other data", 2, _in_spark),
        Check("exchanges", "At most four exchanges", 3, _exchanges),
    ),
)
