"""join(events_df, users_df, countries_df) -> DataFrame: two joins, of which one is skewed and one has a small side.

Spark's manual, "SQL performance tuning": join strategy hints, skew joins. The physical plan, as it was executed, says
what was broadcast, and Spark's event log how many records each task fetched from shuffles.
"""

from __future__ import annotations

from statistics import median

from grader import says, tally
from grader.exercise import Check, Exercise
from grader.exercises.common import spark_tables as tables
from grader.exercises.common.spark_tables import Judge
from grader.exercises.spark_skew import skewed as cases
from grader.exercises.spark_skew.skewed import Given
from grader.jobs.sparks.bench import SparkBench
from grader.jobs.sparks.engine import Operator, Returned
from grader.jobs.sparks.measured import Stage
from grader.trace.gantt import Chart
from grader.verdict import Diagnosis
from grader.worlds.spark import Spark

CONF = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
EVENTS, USERS, COUNTRIES = 12_000, 400, 24
MOST_BROADCAST = 100  # rows: all countries, or a few users, and no large table
OWN_ROWS = 256  # of a table that a submission makes itself, such as one of salts
MOST_UNEVEN = 3.0  # records of the longest task, in those of the median task
COUNTRY = 2  # which argument they are
ALL = f"{EVENTS:,} events, half of one user"
FEW = "60 events, half of one user, who is not in users and so gives no row"
BEFORE = "60 events, half of another user"
AGAIN = f"{ALL}, in the second call of two"


def _given(bench: SparkBench, label: str) -> Given:
    rng = bench.rng(label)
    if label in (FEW, BEFORE):
        return cases.drawn(rng, 60, 12, 4, unknown=label == FEW)
    return cases.drawn(rng, EVENTS, USERS, COUNTRIES, late=label == ALL)


def _held(bench: SparkBench, label: str, *judges: Judge) -> Chart:
    before = _given(bench, BEFORE).arguments if label == AGAIN else None
    returned = bench.run(label, "join", *_given(bench, label).arguments, conf=CONF, before=before)
    given = tables.no_frame(bench, label), tables.missing(bench, label, cases.COLUMNS)
    return bench.hold(label, returned, *given, *judges)


# ---- what must hold


def _rows_wrong(bench: SparkBench, label: str) -> Judge:
    given = _given(bench, label)
    right, types = cases.right(given), tables.types_wrong(bench, label, cases.COLUMNS)

    def judge(returned: Returned) -> Diagnosis | None:
        got = cases.counted(tables.rows(returned))
        if got == right:
            return None
        if (wrong := types(returned)) is not None:  # no row is then as it must be
            return wrong
        missing, extra = right - got, got - right
        expected, found = f"{right.total():,} rows", f"{got.total():,} rows"
        for rows, what in ((missing, "missing"), (extra, "too many")):
            if rows:
                row = min(
                    rows, key=lambda row: (bool(right[row] and got[row]), repr(row))
                )  # one that is not there at all
                message = (
                    f"{label}: {says.counted(rows.total(), 'row')} {'is' if rows.total() == 1 else 'are'} {what}. The row "
                    f"({cases.told(row)}) comes {says.counted(got[row], 'time')} instead of "
                    f"{says.counted(right[row], 'time')}. {_reason(given, row, got[row], right[row])}"
                )
                if all(right[each] and each[0] is not None and each[0] < 0 for each in rows):
                    message += (
                        " All of the missing rows have a negative event_id. If you salt by %, the salt of such an event is "
                        "negative, too. F.pmod is never negative."
                    )
                return bench.found("wrong_result", message, expected, found)
        return None

    return judge


def _reason(given: Given, row: cases.Values, got: int, right: int) -> str:
    if got and got < right:
        return "Keep two rows for an event that comes twice."
    _, user, _, _, name, country, country_name = row
    if not right and ((user is None and name is not None) or (country is None and country_name is not None)):
        return "A key that is null joins with nothing, not even with another null."
    if not right and user is not None and not given.knows(user):
        return f"User {user} is not in users. Both joins are inner, so an event of this user gives no row."
    if row[1] is not None and row[1] == given.hot:
        return (
            "This row belongs to the user with half of all events. If you salt, give each of that user's events exactly one "
            "salt, and copy the user's row once per salt. If you split, join each event in one part only."
        )
    if right and not got:
        return (
            "This row belongs to one of the other users. If you split or salt keys, their events must find them, too."
        )
    return "Join each event with its one user, and with that user's one country. Leave out events that lack either."


def _small_broadcast(bench: SparkBench, label: str) -> Judge:
    def judge(returned: Returned) -> Diagnosis | None:
        assert returned.plan is not None
        joins = [operator for operator in returned.plan.everything() if operator.name.endswith("Join")]
        for join in joins:
            if join.name == "BroadcastHashJoin" and any(COUNTRY in _broadcast(child) for child in join.children):
                return None
        names = ", ".join(join.name for join in joins) or "none"
        message = (
            f"{label}: no BroadcastHashJoin has the countries on its small side. The joins are {names}. Ask for it with "
            f"F.broadcast(...), so that no large table is shuffled for one of {COUNTRIES} rows."
        )
        return bench.found("too_many_bytes", message, "BroadcastHashJoin", names)

    return judge


def _broadcast(side: Operator) -> set[int]:
    """The arguments that are read below a broadcast on this side of a join."""
    found: set[int] = set()
    while side.name != "BroadcastExchange":
        if len(side.children) != 1:
            return found
        (side,) = side.children
    return {leaf.argument for leaf in tables.leaves(side) if leaf.argument is not None}


def _large_broadcast(bench: SparkBench, label: str) -> Judge:
    def judge(returned: Returned) -> Diagnosis | None:
        assert returned.plan is not None
        for operator in returned.plan.everything():
            if operator.name == "BroadcastExchange" and (operator.rows or 0) > MOST_BROADCAST:
                names = ("events", "users", "countries")
                read = {leaf.argument for leaf in tables.leaves(operator) if leaf.argument is not None}
                what = " and ".join(names[number] for number in sorted(read)) or "a table of yours"
                message = (
                    f"{label}: {operator.rows:,} rows of {what} are broadcast. All of them go to the driver and from there to "
                    f"every executor, which have no room for a large table. Broadcast at most {MOST_BROADCAST} rows, such as "
                    "the countries, or the few users who have most of the events."
                )
                return bench.found("too_much_memory", message, f"<= {MOST_BROADCAST} rows", f"{operator.rows:,} rows")
        return None

    return judge


def _settings_kept(bench: SparkBench, label: str) -> Judge:
    def judge(returned: Returned) -> Diagnosis | None:
        for name, value in sorted(returned.changed.items(), key=lambda each: (len(each[0]), each)):
            message = (
                f"{label}: the session has {name} = {value or 'its default'} now. Leave the settings as they are. They are 8 "
                "shuffle partitions, no adaptive execution and no automatic broadcast."
            )
            return bench.found("forbidden_call", message, f"{name} as it was", value)
        return None

    return judge


def _uneven(bench: SparkBench, label: str) -> Judge:
    given = _given(bench, label)
    hot = given.hot_events

    def judge(returned: Returned) -> Diagnosis | None:
        found = bench.found
        stages = [
            (stage, shares) for stage in returned.measured.stages.values() if sum(shares := fetched(stage)) > hot // 2
        ]
        if not stages:
            message = (
                f"{label}: no stage fetched the events from a shuffle, so there are no tasks to compare. Users and events are "
                "both too large to be broadcast. Join the two by a shuffle, with the one key in several parts."
            )
            return found("no_overlap", message, "a join by a shuffle", "none")
        assert returned.plan is not None
        stage, shares = max(stages, key=lambda each: _ratio(each[1]))
        longest, middle = max(shares), median(shares)
        if _ratio(shares) > MOST_UNEVEN:
            before = [(each.number, its) for each, its in stages if each.number < stage.number and max(its) < hot]
            even = [each for each in before if sum(each[1]) > 1.5 * hot]  # so the one user's are among them
            why = (
                f"{hot:,} events belong to one user, and rows with the same key go to the same task. Give that key a salt, or "
                "take its rows out and join them by a broadcast."
            )
            if longest < hot:
                why = f"{hot:,} events belong to one user. They went to several tasks, but to too few. Use more salts."
            elif before and _by_country(returned.plan):
                why = (
                    "There the joined rows are shuffled by country, and all rows of the most frequent user have the same "
                    "country. Broadcast the countries."
                )
            elif even:
                why = (
                    f"In stage {even[0][0]}, before that, no task fetched more than {max(even[0][1]):,}. A later shuffle puts "
                    f"rows with the same key into one task again, and {hot:,} events belong to one user. Leave that shuffle "
                    "out, or give the key a salt there."
                )
            elif given.without_hot > hot // 2:
                why += (
                    f" In this table, that user's events come last, and the first {given.without_hot:,} rows hold none of them. "
                    "To find the user, count all events, or a random sample of them."
                )
            message = (
                f"{label}: in stage {stage.number} the median task fetched {middle:,.0f} records and the longest task {longest:,} "
                f"({_times(longest, middle)}). {why}"
            )
            return found("no_overlap", message, f"<= {MOST_UNEVEN:g} times the median", _times(longest, middle))
        tally.note("records of the longest task", _ratio(shares), MOST_UNEVEN, "times the median", where=label)
        stage, shares = max(stages, key=lambda each: max(each[1]))
        if max(shares) >= hot:
            message = (
                f"{label}: a task of stage {stage.number} fetched {max(shares):,} records, no fewer than the {hot:,} events of the "
                f"one user. Its {len(shares)} tasks fetched {sum(shares):,} records in all. Use enough partitions, and few "
                "copies of each user."
            )
            return found("no_overlap", message, f"< {hot:,} records", f"{max(shares):,}")
        return None

    return judge


def _by_country(plan: Operator) -> bool:
    """Whether events are shuffled by country."""
    return any(
        operator.name == "Exchange"
        and "hashpartitioning(country," in tables.text(operator)
        and any(leaf.argument == 0 for leaf in tables.leaves(operator))
        for operator in plan.everything()
    )


def fetched(stage: Stage) -> list[int]:
    """Records that each task fetched from shuffles, leaving out those that read a file in the same stage."""
    return [task.shuffle_read_records for task in stage.tasks if task.shuffle_read_records or not task.input_records]


def _ratio(shares: list[int]) -> float:
    middle = median(shares)
    return max(shares) / middle if middle else float("inf")


def _times(longest: int, middle: float) -> str:
    return f"{longest / middle:.1f} times as many" if middle else "the median is 0"


# ---- the checks


def _columns(bench: SparkBench) -> Chart:
    for label in (FEW, ALL):
        picture = _held(bench, label, tables.columns_wrong(bench, label, cases.COLUMNS))
    return picture


def _rows(bench: SparkBench) -> Chart:
    for label in (FEW, ALL):
        picture = _held(bench, label, _rows_wrong(bench, label))
    return picture


def _countries(bench: SparkBench) -> Chart:
    return _held(bench, ALL, _small_broadcast(bench, ALL))


def _large(bench: SparkBench) -> Chart:
    return _held(bench, ALL, _large_broadcast(bench, ALL))


def _balanced(bench: SparkBench) -> Chart:
    _held(bench, AGAIN, _settings_kept(bench, AGAIN), _uneven(bench, AGAIN))
    return _held(bench, ALL, _settings_kept(bench, ALL), _uneven(bench, ALL))


def _in_spark(bench: SparkBench) -> Chart:
    return _held(bench, ALL, tables.all_in_spark(bench, ALL, OWN_ROWS, actions=True))


EXERCISE = Exercise(
    name="spark_skew",
    chapter="05",
    title="A join in which one key has half the rows",
    minutes=45,
    difficulty=3,
    cost="tens of seconds",
    world=Spark(("join",)),
    checks=(
        Check("columns", "The columns of the plain join", 2, _columns),
        Check("rows", "Every row, as often as it must be there", 5, _rows),
        Check("countries", "The small table is broadcast", 3, _countries),
        Check("large", "No large table is broadcast", 2, _large),
        Check("balanced", "No task has more than three times the median", 6, _balanced),
        Check("in_spark", "No Python and no other data", 2, _in_spark),
    ),
)
