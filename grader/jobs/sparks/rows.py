"""The rows of a Dataset, as the JVM writes them: JSON texts, in one answer."""

from __future__ import annotations

from typing import Any


def texts(gateway: Any, dataset: Any) -> list[str]:
    """What a Dataset of strings, none of which has a line break, holds. Raises Py4JError.

    By Seq.mkString, which is one method: Py4J chooses among several String.join by chance.
    """
    found = gateway.jvm.org.apache.spark.api.python.PythonUtils.toSeq(dataset.collectAsList())
    text: str = found.mkString("\n")
    return text.split("\n") if text else []
