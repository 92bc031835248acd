"""What an answer's body says, whoever wrote it: predictions, or a reason; and the mistake that gives such predictions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Said = Array  # [rows, out]
MERE_STATES = {  # of a server that is not ready: words that say no more than 503 does
    "", "false", "not ready", "unready", "not_ready", "notready", "unavailable", "service unavailable", "error", "fail",
    "failed", "failure", "down", "no", "none", "null", "503", "503 service unavailable", "unhealthy", "bad", "ko",
}  # fmt: skip


def close(found: Array, right: Array) -> bool:
    """Equal but for what float32 makes of it."""
    return found.shape == right.shape and bool(np.allclose(found, right, rtol=2e-4, atol=2e-5))


def _parsed(body: str) -> Any:
    """The JSON value; None where it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def values(body: str, shape: tuple[int, ...]) -> Said | str:
    """The predictions, [rows, out], or why they are none."""
    told = _parsed(body)
    if not isinstance(told, dict) or "predictions" not in told:
        return 'its body is not a JSON object with "predictions"'
    rows = told["predictions"]
    if not isinstance(rows, list):
        return f'"predictions" is {_kind(rows)} instead of a list of lists'
    if any(not isinstance(row, list) for row in rows):
        return f'"predictions" holds {_kind(next(row for row in rows if not isinstance(row, list)))} instead of a list'
    if len(rows) != shape[0]:
        return f'"predictions" has {len(rows)} row{"s" * (len(rows) != 1)} instead of {shape[0]}'
    for number, row in enumerate(rows):
        if len(row) != shape[1]:
            return f"row {number} of the predictions has {len(row)} number{'s' * (len(row) != 1)} instead of {shape[1]}"
        for one in row:
            if not isinstance(one, int | float) or isinstance(one, bool):
                return f"row {number} of the predictions holds {_kind(one)} instead of a number"
    try:
        return np.array(rows, np.float64).reshape(shape)
    except OverflowError:
        return "the predictions hold a number that is too large"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def reason(body: str) -> bool:
    """Whether an answer says more than that something is not ready."""
    told = _parsed(body)
    texts = [body] if told is None else list(_texts(told))
    return any(text.strip(" .!\n").lower() not in MERE_STATES and any(map(str.isalpha, text)) for text in texts)


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < 5:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each, depth + 1)


def problem(found: Said, right: Array) -> str:
    """The mistake that gives such predictions, in a sentence; empty for none that is known."""
    if not np.isfinite(found).all():
        return "They are not finite."
    exponents = np.exp(right - right.max(axis=1, keepdims=True))
    ways = (
        (exponents / exponents.sum(axis=1, keepdims=True), "They went through a softmax. Leave it out."),
        (1 / (1 + np.exp(-np.clip(right, -500, 500))), "They went through a sigmoid. Leave it out."),
        (np.maximum(right, 0), "They went through a ReLU. The last layer has none."),
        (right[::-1], "The rows are in reverse order. Answer them in the order of the request."),
    )
    for way, words in ways:
        if close(found, way):
            return words
    digits = next((digits for digits in range(5) if np.allclose(found, np.round(right, digits), rtol=0, atol=1e-9)), 9)
    if digits < 9 or all(math.isclose(one, round(one, 3), abs_tol=1e-9) for one in found.flat):
        return "They are rounded. Return them as they are."
    if np.allclose(found, right, rtol=2e-2, atol=2e-2):
        return "They are close, but not as close as float32 comes. Compute in float32."
    return ""
