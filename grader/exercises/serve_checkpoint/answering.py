"""What an answer's body says, whoever wrote it, and the mistake that gives such predictions; and how requests and answers are
told, in words and as a picture with a row for each request.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from grader.exercises.serve_checkpoint.checkpoints import Ask, Plan
from grader.trace.gantt import Bar, Became, Chart

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
    near = np.allclose(found, right, rtol=2e-4, atol=6e-4)  # as three digits are, of what float32 makes of it
    if digits < 9 or (near and all(math.isclose(one, round(one, 3), abs_tol=1e-9) for one in found.flat)):
        return "They are rounded. Return them as they are."
    if np.allclose(found, right, rtol=2e-2, atol=2e-2):
        return "They are close, but not as close as float32 comes. Compute in float32."
    return ""


MOST_ROWS = 20
WORDS: dict[Became, str] = {
    "done": "from the request to a right answer", "failed": "from the request to a wrong answer",
    "still": "asked until the model is loaded", "died": "never answered",
}  # fmt: skip


def short(text: Any, most: int = 300) -> str:
    """What a learner's process said, as something that can be shown."""
    words = " ".join(str(text).split())
    words = words if len(words) <= most else words[: most - 3] + "..."
    return "".join(sign if sign.isprintable() else "?" for sign in words)


def asked(ask: Ask) -> str:
    """ "POST /predict with 2 rows"."""
    return ask.what if ask.method == "GET" else f"{ask.method} {ask.path} with {ask.what}"


def chart(plan: Plan, answers: list[dict[str, Any]]) -> Chart:
    """When each request was sent, and when and how it was answered; in milliseconds."""
    rows = [(number, ask, answers[number]) for number, ask in enumerate(plan.asks) if number < len(answers)]
    wrong = next((at for at, (_, ask, answer) in enumerate(rows) if _became(ask, answer) in ("failed", "died")), 0)
    rows = rows[max(0, wrong - MOST_ROWS + 3) :][:MOST_ROWS]
    begin = min((1000 * answer["begin"] for _, _, answer in rows), default=0.0)
    found = Chart((), unit=" ms", words=WORDS, lines=False)
    for number, ask, answer in rows:
        lane = f"{number}: {asked(ask).replace('POST /predict with ', '')}"
        found.lanes = (*found.lanes, lane)
        became = _became(ask, answer)
        start, end = 1000 * answer["begin"] - begin, 1000 * answer.get("end", answer["begin"]) - begin
        found.bars.append(
            Bar(lane, start, end, f"{answer['status'] or 'no answer'}  {short(answer['body'], 90)}", became)
        )
        found.end = max(found.end, end)
    together = [len(group) for group in plan.groups if len(group) > 1]
    found.end = max(found.end, 1.0)
    found.subtitle = "Each row is a request; without a method it is POST /predict."
    if len(rows) < len(plan.asks):
        found.subtitle += f" {len(rows)} of {len(plan.asks)} are shown."
    if together:
        found.subtitle += f" {' and '.join(map(str, together))} of them were sent at the same time."
    return found


def _became(ask: Ask, answer: dict[str, Any]) -> Became:
    if answer["status"] is None:
        return "died"
    if ask.patient:
        return "still"
    if answer["status"] != ask.status:
        return "failed"
    if ask.right is None:
        return "done"
    said = values(answer["body"], ask.right.shape)
    return "done" if not isinstance(said, str) and close(said, ask.right) else "failed"
