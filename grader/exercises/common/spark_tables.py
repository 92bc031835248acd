"""What checks ask of a returned DataFrame: its columns, and of its plan that Spark alone did the work.

Spark manual, "SQL performance tuning" (join hints) and "explain"; the names are those of physical operators.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from grader import tally
from grader.jobs.sparks.bench import SparkBench
from grader.jobs.sparks.engine import Operator, Returned
from grader.verdict import Diagnosis

Judge = Callable[[Returned], Diagnosis | None]
FAMILIES = {
    "a whole number": ("tinyint", "smallint", "int", "bigint"),
    "a number": ("float", "double", "decimal"),
    "text": ("string", "varchar", "char"),
}
_PYTHON = re.compile("Python|Pandas|InArrow|PySpark|ScriptTransformation")
_HARMLESS = ("Range", "Scan OneRowRelation", "Reused")  # leaves that hold nobody's data


def no_frame(bench: SparkBench, label: str) -> Judge:
    """What was returned is a DataFrame: other judges here are asked after this one."""

    def judge(returned: Returned) -> Diagnosis | None:
        if returned.plan is not None:
            return None
        got = named(returned.type_name)
        message = (
            f"{label}: your function returned {'nothing' if got == 'NoneType' else f'a {got}'}. Return a DataFrame."
        )
        return bench.found("wrong_result", message, "a DataFrame", got)

    return judge


def missing(bench: SparkBench, label: str, wanted: Iterable[str]) -> Judge:
    """All of these columns are there: a plan without them proves nothing."""

    def judge(returned: Returned) -> Diagnosis | None:
        names = [name for name, _ in returned.columns]
        for name in wanted:
            if name not in names:
                got = ", ".join(map(named, names))
                return bench.found("wrong_result", f"{label}: the result has no column {name}.", ", ".join(wanted), got)
        return None

    return judge


def columns_wrong(bench: SparkBench, label: str, wanted: Mapping[str, str]) -> Judge:
    """`wanted`: each column's name, and which of FAMILIES it is of. There are no others."""
    expected, incomplete = ", ".join(wanted), missing(bench, label, wanted)
    types = types_wrong(bench, label, wanted)

    def judge(returned: Returned) -> Diagnosis | None:
        found = bench.found
        names = [name for name, _ in returned.columns]
        got = ", ".join(map(named, names))
        if (wrong := incomplete(returned)) is not None:
            return wrong
        for number, name in enumerate(names):
            if name in names[:number]:
                message = (
                    f"{label}: the result has two columns {named(name)}. Join on the key by its name, join(other, key), to "
                    "keep one key column. Drop any other column that both sides have from one of them."
                )
                return found("wrong_result", message, expected, got)
            if name not in wanted:
                message = (
                    f"{label}: the result has a column {named(name)}, which was not asked for. Drop it at the end."
                )
                return found("wrong_result", message, expected, got)
        return types(returned)

    return judge


def types_wrong(bench: SparkBench, label: str, wanted: Mapping[str, str]) -> Judge:
    """Those of these columns that are there have types of their families."""

    def judge(returned: Returned) -> Diagnosis | None:
        for name, kind in returned.columns:
            if name in wanted and not kind.startswith(FAMILIES[wanted[name]]):
                message = f"{label}: {name} has the type {named(kind)}, but must be {wanted[name]}."
                return bench.found("wrong_result", message, " or ".join(FAMILIES[wanted[name]]), named(kind))
        return None

    return judge


def rows(returned: Returned) -> list[dict[str, Any]]:
    """The rows, by column."""
    return [json.loads(text) for text in returned.rows]


def all_in_spark(bench: SparkBench, label: str, own_rows: int, actions: bool) -> Judge:
    """No Python for rows; data from the arguments alone, but for tables of at most `own_rows` rows; nothing written to
    files; and without `actions`, nothing run before the DataFrame was returned."""

    def judge(returned: Returned) -> Diagnosis | None:
        assert returned.plan is not None
        wrong = _python(bench, label, returned.plan) or _from_elsewhere(bench, label, returned.plan, own_rows)
        return wrong or _written(bench, label, returned) or (None if actions else _run(bench, label, returned))

    return judge


def _python(bench: SparkBench, label: str, plan: Operator) -> Diagnosis | None:
    for operator in plan.everything():
        if _PYTHON.search(operator.name):
            message = (
                f"{label}: the plan has {named(operator.name)} ({text(operator)}). There every row leaves the JVM for a Python "
                "process and comes back, and Spark cannot see what is done to it. Use pyspark.sql.functions instead."
            )
            return bench.found("forbidden_call", message, "no Python in the plan", named(operator.name))
    return None


def _from_elsewhere(bench: SparkBench, label: str, plan: Operator, most: int) -> Diagnosis | None:
    for leaf in leaves(plan):
        few = leaf.rows is not None and leaf.rows <= most and not leaf.name.startswith("Scan json")
        if leaf.argument is None and not few and not leaf.name.startswith(_HARMLESS):
            message = (
                f"{label}: rows of the result come from {text(leaf)}, and not from the DataFrames that you were given. "
                "Build the result from those alone, without rows in Python's memory, an RDD or a file."
            )
            return bench.found("forbidden_call", message, "scans of the arguments", named(leaf.name))
    return None


def _written(bench: SparkBench, label: str, returned: Returned) -> Diagnosis | None:
    written = returned.measured.total("written_records")
    if not written:
        return None
    message = f"{label}: {written:,} records were written to files. Return a DataFrame, and write nothing."
    return bench.found("forbidden_call", message, "nothing written", f"{written:,} records")


def _run(bench: SparkBench, label: str, returned: Returned) -> Diagnosis | None:
    for job in returned.measured.jobs:
        names = [returned.measured.stages[number].name for number in job.stages if number in returned.measured.stages]
        if job.ours or not names:
            continue
        what = named(names[-1].split(" at ")[0])
        message = (
            f"{label}: your function ran a job ({what}) before it returned. Return the plan without running it. collect, "
            "count, first, show and a pivot without its values each run a job."
        )
        return bench.found("forbidden_call", message, "no action", what, bench.line_of(names[-1]))
    return None


def leaves(plan: Operator) -> Iterator[Operator]:
    """Where the plan's data comes from."""
    return (operator for operator in plan.everything() if not operator.children)


def exchanges(plan: Operator) -> list[Operator]:
    """The shuffles of a plan. One that is used again is there once, and a broadcast is none."""
    return [operator for operator in plan.everything() if operator.name == "Exchange"]


def too_many_exchanges(bench: SparkBench, label: str, most: int, hint: str) -> Judge:
    def judge(returned: Returned) -> Diagnosis | None:
        assert returned.plan is not None
        got = exchanges(returned.plan)
        tally.note("exchanges in the plan", len(got), most, "exchanges", where=label)
        if len(got) <= most:
            return None
        told = [text(each).removeprefix("Exchange ").split(", ENSURE_")[0].split(", REPARTITION_")[0] for each in got]
        shown = "; ".join(
            f"{f'{count} times ' if count > 1 else ''}{fit(each, 70)}" for each, count in Counter(told).most_common(6)
        )
        message = (
            f"{label}: the plan has {len(got)} exchanges ({shown}). Each of them moves rows between machines, and {most} "
            f"are enough. {hint}"
        )
        return bench.found("too_many_rounds", message, f"<= {most} exchanges", f"{len(got)}")

    return judge


def text(operator: Operator) -> str:
    """What an operator says of itself, without the numbers of its columns."""
    return fit(re.sub(r"#\d+L?", "", operator.text), 120)


def named(name: str) -> str:
    """A name that a submission chose, as it may be shown."""
    return fit("".join(letter if letter.isprintable() else "?" for letter in name), 60)


def fit(said: str, length: int) -> str:
    return said if len(said) <= length else said[: length - 3] + "..."
