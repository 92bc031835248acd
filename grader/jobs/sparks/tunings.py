"""A CrossValidator that a driver returned, as the supervisor sees it: its parts, and what a fit of it gives."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway, JavaObject
from py4j.protocol import Py4JError

from grader.jobs.sparks import driver, rows

PIPELINE = "org.apache.spark.ml.Pipeline"
FIT_SECONDS = 150.0  # real ones: the last resort


def described(
    gateway: JavaGateway, session: Any, folder: Path, event: dict[str, Any], asked: dict[str, Any]
) -> dict[str, Any]:
    """What the grading process is told of it; where data to `fit` came with the order, also of a fit on the JVM."""
    try:
        tuning = JavaObject(event["tuning"], gateway._gateway_client)
        estimator = tuning.getEstimator()
        stages = list(estimator.getStages()) if _kind(estimator) == PIPELINE else []
        told = {
            "validator": _part(tuning),
            "estimator": _part(estimator),
            "stages": [_part(stage) for stage in stages],
            "grid": [
                [[pair.param().parent(), pair.param().name(), _value(pair)] for pair in _pairs(each)]
                for each in tuning.getEstimatorParamMaps()
            ],
            "evaluator": _part(tuning.getEvaluator()),
        }
    except (Py4JError, AttributeError, ValueError) as error:
        return {"event": "raised", "stage": "look", "type": type(error).__name__, "line": None,
                "text": driver.short(str(error))}  # fmt: skip
    if "fit" in asked:
        found: dict[str, Any] = {}
        given = asked["fit"]
        thread = threading.Thread(target=_fit, args=(gateway, session, folder, tuning, given, found), daemon=True)
        thread.start()
        thread.join(FIT_SECONDS)
        if thread.is_alive():
            return {"event": "endless", "fit": True}
        told |= found
    return {"event": "returned", "type": "CrossValidator", "tuning": told}


def _fit(
    gateway: JavaGateway, session: Any, folder: Path, tuning: Any, given: dict[str, Any], found: dict[str, Any]
) -> None:
    try:
        train, test = (
            session.read().schema(each["schema"]).json("file://" + str(folder / each["frame"]))
            for each in (given["train"], given["test"])
        )
        model = tuning.fit(train)
        predicted = model.transform(test)
        found["metrics"] = [float(each) for each in model.avgMetrics()]
        found["rows"] = rows.texts(gateway, predicted.toJSON())
    except Py4JError as error:
        found["raised"] = driver.cause(str(error))


def _kind(of: Any) -> str:
    return str(of.getClass().getName())


def _pairs(values: Any) -> list[Any]:
    pairs = values.toSeq()
    return [pairs.apply(number) for number in range(pairs.size())]


def _value(pair: Any) -> Any:
    """A parameter's value; None for what is no plain data, such as a pipeline's stages."""
    try:
        return json.loads(pair.param().jsonEncode(pair.value()))
    except (Py4JError, ValueError):
        return None


def _part(of: Any) -> dict[str, Any]:
    pairs = _pairs(of.extractParamMap())
    return {"kind": _kind(of), "uid": str(of.uid()), "values": {str(p.param().name()): _value(p) for p in pairs}}
