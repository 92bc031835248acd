"""build(feature_columns, label_column, folds, parallelism): a CrossValidator over a pipeline.

Spark's manual, "ML pipelines" and "ML tuning". Judged by the JVM's own object, which the supervisor looks at and fits:
what is in it, which column goes where, how many fits there were, and how it predicts rows that it has not seen.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from grader import says
from grader.exercise import Check, Exercise
from grader.exercises.spark_mllib import tables as given
from grader.jobs.sparks.bench import SparkBench
from grader.jobs.sparks.engine import Part, Returned, Tuning
from grader.lost import Lost
from grader.trace.gantt import Chart
from grader.verdict import Diagnosis
from grader.worlds.spark import Spark

Judge = Callable[[Returned], Diagnosis | None]
ML = "org.apache.spark.ml."
VALIDATOR, PIPELINE, AREA = (
    ML + "tuning.CrossValidator",
    ML + "Pipeline",
    ML + "evaluation.BinaryClassificationEvaluator",
)
INDEXER, ASSEMBLER, CLASSIFIER = ML + "feature.StringIndexer", ML + "feature.VectorAssembler", ML + "classification."
SCALERS = tuple(f"{ML}feature.{name}Scaler" for name in ("Standard", "MinMax", "MaxAbs", "Robust"))
FOLDS, PARALLELISM = 2, 2
MOST_MAPS = 8
NAMES, LATER_NAMES = ["height", "width", "depth", "weight"], ["hours", "price", "rate", "length", "speed"]
BELOW = 0.08  # what AUC may be below that of the formula by which the labels were drawn


# ---- the runs


def _data(bench: SparkBench) -> given.Data:
    return given.data(bench.rng("customers"))


def _fitted(bench: SparkBench) -> tuple[str, Returned]:
    label = f"build({given.FEATURES}, {given.LABEL!r}, {FOLDS}, {PARALLELISM})"
    return label, bench.run(label, "build", given.FEATURES, given.LABEL, FOLDS, PARALLELISM, _data(bench).fit)


def _other(bench: SparkBench) -> tuple[str, Returned, tuple[list[str], str, int, int]]:
    """A call with another name and other numbers, of which nothing is fitted. It asks for more models at a time than
    folds, and has one feature. The function is called for other columns before anybody looks at what it returned."""
    rng: random.Random = bench.rng("other columns")
    asked = [rng.choice(NAMES)], rng.choice(["churned", "target", "outcome"]), rng.randint(9, 10), rng.randint(11, 13)
    label = f"build({asked[0]}, {asked[1]!r}, {asked[2]}, {asked[3]})"
    return label, bench.run(label, "build", *asked, after=_later(bench)), asked


def _later(bench: SparkBench) -> tuple[list[str], str, int, int]:
    """What the later call is made with: nothing that other calls have, or that anybody writes by chance."""
    rng: random.Random = bench.rng("a later call")
    return rng.sample(LATER_NAMES, 3), "renewed", rng.randint(14, 16), rng.randint(17, 19)


def _by_later(bench: SparkBench, got: Any) -> str:
    """Why a CrossValidator has what only the later call was given, in a sentence with a space before it; "" if it does not."""
    columns, label, *numbers = _later(bench)
    if got not in (columns, repr(label), *numbers):
        return ""
    return (
        f" That is an argument of a later call, build({columns}, {label!r}, {numbers[0]}, {numbers[1]}). A later call must "
        "not change what an earlier call returned. Make new objects in each call."
    )


# ---- what must hold


def _of(tuning: Tuning, *kinds: str) -> list[Part]:
    return [stage for stage in tuning.stages if stage.kind in kinds]


def _classifiers(tuning: Tuning) -> list[Part]:
    return [stage for stage in tuning.stages if stage.kind.startswith(CLASSIFIER)]


def _indexed(tuning: Tuning) -> list[tuple[Any, Any]]:
    """(column, its index's column) of each StringIndexer: it takes one by `inputCol`, or several by `inputCols`."""
    pairs: list[tuple[Any, Any]] = []
    for values in (each.values for each in _of(tuning, INDEXER)):
        several = zip(values.get("inputCols") or (), values.get("outputCols") or (), strict=False)
        pairs += several if values.get("inputCols") else [(values.get("inputCol"), values.get("outputCol"))]
    return pairs


def _hint(tuning: Tuning) -> str:
    """What to do about what Spark raised in fit(), where the run shows it."""
    if "already exists" in tuning.raised:
        return (
            " The table, or a stage before, already has a column of that name. Give this stage's output another name."
        )
    keeps = any(indexer.values.get("handleInvalid") == "keep" for indexer in _of(tuning, INDEXER))
    if keeps and any(each in tuning.raised for each in ("but got 3", "3 classes")):
        return (
            " The label has two values, but the classifier has three classes: with handleInvalid='keep', the StringIndexer "
            "adds a class for values that fit() has not seen. Leave handleInvalid at 'error', or use 'skip'."
        )
    return ""


def _name(part: Part) -> str:
    return part.kind.rpartition(".")[2]


def _is_validator(bench: SparkBench, label: str) -> Judge:
    def judge(returned: Returned) -> Diagnosis | None:
        if returned.tuning is not None and returned.tuning.validator.kind == VALIDATOR:
            return None
        message = f"{label} returned a {returned.type_name}. Return a CrossValidator that is not fitted yet."
        return bench.found("wrong_result", message, "a CrossValidator", returned.type_name)

    return judge


def _stages(bench: SparkBench, label: str, features: list[str]) -> Judge:
    found = bench.found

    def judge(returned: Returned) -> Diagnosis | None:
        tuning = returned.tuning
        assert tuning is not None
        if tuning.estimator.kind != PIPELINE:
            message = (
                f"{label}: the CrossValidator's estimator is a {_name(tuning.estimator)} instead of the whole Pipeline. A stage "
                "that is fitted outside of it has seen the rows that each fold is tested with."
            )
            return found("wrong_result", message, "a Pipeline", _name(tuning.estimator))
        names = [_name(stage) for stage in tuning.stages]
        parts = (
            ("StringIndexer", _of(tuning, INDEXER)), ("VectorAssembler", _of(tuning, ASSEMBLER)),
            ("scaler (StandardScaler, MinMaxScaler, MaxAbsScaler or RobustScaler)", _of(tuning, *SCALERS)),
            ("classifier", _classifiers(tuning)),
        )  # fmt: skip
        for what, those in parts:
            if len(those) != 1:
                message = f"{label}: the pipeline's stages are {', '.join(names) or 'none'}. Use exactly one {what}, not {len(those)}."
                return found("wrong_result", message, f"one {what.split(' ')[0]}", str(len(those)))
        if len(names) != 4:
            message = f"{label}: the pipeline's stages are {', '.join(names)}. Use only four: a StringIndexer, a VectorAssembler, a scaler and a classifier."
            return found("wrong_result", message, "4 stages", str(len(names)))
        (assembler,), (scaler,), (classifier,) = parts[1][1], parts[2][1], parts[3][1]
        missing = [name for name in features if name not in (assembler.values.get("inputCols") or ())]
        if missing:
            got = assembler.values.get("inputCols")
            message = f"{label}: the VectorAssembler leaves out {', '.join(missing)}. Give it all feature columns."
            if later := _by_later(bench, got):
                message = f"{label}: the VectorAssembler takes {got} instead of {features}.{later}"
            return found("wrong_result", message, str(features), str(got))
        wires = (
            (scaler, "inputCol", assembler.values.get("outputCol"), "the assembler's output"),
            (classifier, "featuresCol", scaler.values.get("outputCol"), "the scaler's output"),
        )
        for part, name, right, whose in wires:
            if part.values.get(name) != right:
                got = part.values.get(name)
                message = f"{label}: {_name(part)} reads {got!r} ({name}) instead of {whose}, {right!r}."
                return found("wrong_result", message, f"{name}={right!r}", repr(got))
        return None

    return judge


def _no_leak(bench: SparkBench, label: str, features: list[str]) -> Judge:
    def judge(returned: Returned) -> Diagnosis | None:
        tuning, found = returned.tuning, bench.found
        assert tuning is not None
        if not _of(tuning, *SCALERS):
            message = (
                f"{label}: the CrossValidator's pipeline has no scaler. A scaler that is fitted outside of it has seen the mean "
                "and the spread of the rows that a fold is tested with. Put the scaler into the pipeline."
            )
            return found("wrong_result", message, "a scaler in the pipeline", "none")
        for assembler in _of(tuning, ASSEMBLER):
            more = [str(name) for name in assembler.values.get("inputCols") or () if name not in features]
            if more and not _by_later(bench, assembler.values["inputCols"]):
                message = f"{label}: the VectorAssembler also takes {', '.join(more)}, which feature_columns does not name. Assemble the features alone, so that the label cannot leak into them."
                return found("wrong_result", message, str(features), str(assembler.values["inputCols"]))
        return None

    return judge


def _labels(bench: SparkBench, label: str, column: str) -> Judge:
    def judge(returned: Returned) -> Diagnosis | None:
        tuning, found = returned.tuning, bench.found
        assert tuning is not None
        indexers, classifiers = _of(tuning, INDEXER), _classifiers(tuning)
        pairs = _indexed(tuning)
        if not indexers or not classifiers:
            message = (
                f"{label}: the pipeline needs a StringIndexer for the label, and a classifier that reads its output."
            )
            return found("wrong_result", message, "both", f"{len(indexers)} and {len(classifiers)}")
        outputs = [output for name, output in pairs if name == column]
        if not outputs:
            got = ", ".join(repr(name) for name, _ in pairs)
            message = f"{label}: the StringIndexer reads {got}, but the label is in the column {column!r}."
            message += _by_later(bench, got) or " Use label_column."
            return found("wrong_result", message, repr(column), got)
        told = classifiers[0].values.get("labelCol")
        if told not in outputs:
            message = (
                f"{label}: {_name(classifiers[0])} takes its label from {told!r} (labelCol). The column {column!r} holds strings. "
                f"Use the numbers in the StringIndexer's output, {outputs[0]!r}."
            )
            return found("wrong_result", message, f"labelCol={outputs[0]!r}", repr(told))
        return None

    return judge


def _evaluator(bench: SparkBench, label: str) -> Judge:
    def judge(returned: Returned) -> Diagnosis | None:
        tuning, found = returned.tuning, bench.found
        assert tuning is not None
        values, kind = tuning.evaluator.values, _name(tuning.evaluator)
        if tuning.evaluator.kind != AREA or values.get("metricName") != "areaUnderROC":
            metric = f"{kind}, {values.get('metricName')}"
            message = f"{label}: models are compared by {metric}. Compare them by BinaryClassificationEvaluator's areaUnderROC."
            return found("wrong_result", message, "areaUnderROC", metric)
        outputs = [output for _, output in _indexed(tuning)]
        if not outputs:
            message = (
                f"{label}: the CrossValidator's pipeline has no StringIndexer, so it makes no indexed label for the "
                "evaluator. Put the whole pipeline into the CrossValidator."
            )
            return found("wrong_result", message, "an indexed label", "none")
        if values.get("labelCol") not in outputs:
            message = f"{label}: the evaluator's labelCol is {values.get('labelCol')!r}, but the indexed label is in {outputs}."
            return found("wrong_result", message, f"labelCol in {outputs}", repr(values.get("labelCol")))
        scores = [
            each.values.get(name) for each in _classifiers(tuning) for name in ("rawPredictionCol", "probabilityCol")
        ]
        if values.get("rawPredictionCol") not in [each for each in scores if each]:
            got = values.get("rawPredictionCol")
            message = (
                f"{label}: the evaluator ranks rows by {got!r} (rawPredictionCol), but the classifier's scores are in "
                f"{scores[:1]}. Rank by the scores."
            )
            if got in [each.values.get("predictionCol") for each in _classifiers(tuning)]:
                message += " Predictions of 0 and 1 give only one point of the curve."
            return found("wrong_result", message, f"rawPredictionCol={scores[0] if scores else None!r}", repr(got))
        return None

    return judge


def _numbers(bench: SparkBench, label: str, folds: int, parallelism: int) -> Judge:
    """Whether the numbers were passed on, and the grid is one."""

    def judge(returned: Returned) -> Diagnosis | None:
        tuning, found = returned.tuning, bench.found
        assert tuning is not None
        for name, right in (("numFolds", folds), ("parallelism", parallelism)):
            got = tuning.validator.values.get(name)
            if got != right:
                message = f"{label}: {name} is {got} instead of {right}."
                message += _by_later(bench, got) or " Pass the argument on to the CrossValidator."
                return found("wrong_result", message, str(right), str(got))
        own = {stage.uid for stage in tuning.stages} | {tuning.estimator.uid}
        for each in tuning.grid:
            for uid, name, _ in each:
                if uid not in own:
                    message = f"{label}: the grid changes {name} of {uid}, which is not a stage of the pipeline. Spark ignores such a parameter silently. Use the pipeline's own stages."
                    return found("wrong_result", message, "a stage of the pipeline", uid)
        different = {json.dumps(sorted(each, key=repr), sort_keys=True) for each in tuning.grid}
        if not 2 <= len(different) <= MOST_MAPS or len(different) != len(tuning.grid):
            equal = "" if len(different) == len(tuning.grid) else f", only {len(different)} of them different"
            message = (
                f"{label}: the grid has {says.counted(len(tuning.grid), 'map')}{equal}. Use 2 to {MOST_MAPS} maps, all different, "
                "whatever the arguments are. Each is fitted once for every fold."
            )
            return found("wrong_result", message, f"2 to {MOST_MAPS} maps", str(len(different)))
        return None

    return judge


def _fits(bench: SparkBench, label: str) -> Judge:
    def judge(returned: Returned) -> Diagnosis | None:
        tuning, found = returned.tuning, bench.found
        assert tuning is not None
        if tuning.raised:
            return found("crash", f"{label}, then fit: {tuning.raised[:400].rstrip('.')}.{_hint(tuning)}")
        each = len(_of(tuning, INDEXER))  # of which every fit of the pipeline fits as many
        if not each:
            message = f"{label}: the pipeline has no StringIndexer, by whose fits those of the pipeline are counted. Index the label with one."
            return found("wrong_result", message, "a StringIndexer", "none")
        got = sum(".StringIndexer.fit(" in query for query in returned.measured.queries) / each
        right = len(tuning.grid) * FOLDS + 1
        if got != right:
            message = f"{label}: the pipeline was fitted {got:g} times instead of {len(tuning.grid)} maps x {FOLDS} folds + 1 = {right} times."
            return found("too_many_rounds" if got > right else "wrong_result", message, str(right), f"{got:g}")
        return None

    return judge


def _good(bench: SparkBench, label: str) -> Judge:
    data = _data(bench)

    def judge(returned: Returned) -> Diagnosis | None:
        tuning, found = returned.tuning, bench.found
        assert tuning is not None
        if tuning.raised:
            return found("crash", f"{label}, then fit: {tuning.raised[:400].rstrip('.')}.{_hint(tuning)}")
        least = data.area - BELOW
        got = _area_of(tuning, data.labels)
        if got is None:
            message = (
                f"{label}: the fitted model does not give each of {given.TEST} rows the index of its label and a score."
            )
            return found("wrong_result", message, "a score a row", "none")
        if got < least:
            message = (
                f"{label}: fitted with {given.TRAIN} rows, the model ranks {given.TEST} others with an area under ROC of {got:.3f}. At least {least:.3f} "
                f"is expected, because the formula behind the labels reaches {data.area:.3f}. The maps of the grid reached "
                f"{', '.join(f'{x:.3f}' for x in tuning.metrics)} in the cross-validation."
            )
            if _stages(bench, label, given.FEATURES)(returned) is None and max(tuning.metrics, default=0.0) < least:
                message += " Put better settings into the grid."
            return found("wrong_result", message, f">= {least:.3f}", f"{got:.3f}")
        return None

    return judge


def _area_of(tuning: Tuning, labels: tuple[str, str]) -> float | None:
    """The area under ROC of what was predicted; None where that is no prediction."""
    classifiers, outputs = _classifiers(tuning), [output for name, output in _indexed(tuning) if name == given.LABEL]
    if not classifiers or not outputs:
        return None
    column = classifiers[0].values.get("rawPredictionCol") or classifiers[0].values.get("probabilityCol")
    scored, ones = [], set()
    try:
        for text in tuning.rows:
            row: dict[str, Any] = json.loads(text)
            one = int(row[str(outputs[0])])
            scored.append((float(row[str(column)]["values"][1]), one))
            if one:
                ones.add(row[given.LABEL])
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    same = len(ones) == 1 and ones <= set(labels) and len(scored) == given.TEST
    return given.area(scored) if same else None


# ---- the checks


def _both(bench: SparkBench, *judges: Callable[[str, list[str], str, int, int], Judge]) -> Chart:
    """Judge both calls. The one of which something was fitted has the picture."""
    label, returned, asked = _other(bench)
    try:
        bench.hold(label, returned, _is_validator(bench, label), *(judge(label, *asked) for judge in judges))
    except Lost as violation:
        violation.picture = None  # nothing ran
        raise
    label, returned = _fitted(bench)
    judged = [judge(label, given.FEATURES, given.LABEL, FOLDS, PARALLELISM) for judge in judges]
    return bench.hold(label, returned, _is_validator(bench, label), *judged)


def _check_fits(bench: SparkBench) -> Chart:
    _both(bench, lambda label, features, column, folds, parallelism: _numbers(bench, label, folds, parallelism))
    label, returned = _fitted(bench)
    return bench.hold(label, returned, _fits(bench, label))


def _check_area(bench: SparkBench) -> Chart:
    label, returned = _fitted(bench)
    return bench.hold(label, returned, _is_validator(bench, label), _good(bench, label))


EXERCISE = Exercise(
    name="spark_mllib",
    chapter="05",
    title="Cross-validation of a pipeline",
    minutes=35,
    difficulty=2,
    cost="tens of seconds",
    world=Spark(("build",)),
    checks=(
        Check(
            "stages",
            "Four stages in one pipeline, each reads the one before",
            3,
            lambda bench: _both(bench, lambda label, features, *_: _stages(bench, label, features)),
        ),
        Check(
            "label",
            "The label is the indexed one",
            3,
            lambda bench: _both(bench, lambda label, features, column, *_: _labels(bench, label, column)),
        ),
        Check(
            "leak",
            "Nothing leaks from the rows that test",
            3,
            lambda bench: _both(bench, lambda label, features, *_: _no_leak(bench, label, features)),
        ),
        Check(
            "evaluator",
            "Models are compared by the area under ROC",
            3,
            lambda bench: _both(bench, lambda label, *_: _evaluator(bench, label)),
        ),
        Check("fits", "As many fits as grid x folds + 1", 3, _check_fits),
        Check("area", "It ranks rows that it has not seen", 3, _check_area),
    ),
)
