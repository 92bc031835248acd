"""Calls of plain functions in words, and the numbers that they return. Shared by exercises that need no ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from grader import says
from grader.lost import Lost
from grader.ranks.program import Strided
from grader.sandbox.frames import Other
from grader.worlds.cases import Case
from grader.worlds.ranks import RankBench

T = TypeVar("T")
BROKEN_OFF = ("crash", "timeout", "out_of_memory")


def number(value: Any) -> float | None:
    """A number, also as a tensor without dimensions; None for anything else."""
    if isinstance(value, Strided) and value.shape == ():
        value = value.view().item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def pair(value: Any) -> tuple[float, float] | None:
    """Two numbers, also as a tensor with two elements; None for anything else."""
    parts = value.view().tolist() if isinstance(value, Strided) and value.shape == (2,) else value
    if not isinstance(parts, list) or len(parts) != 2:
        return None
    first, second = (number(part) for part in parts)
    return None if first is None or second is None else (first, second)


def in_words(value: Any) -> str:
    """A value that is not what was asked for."""
    match value:
        case None:
            return "None"
        case Other():
            return f"a value of type {value.type_name}"
        case Strided():
            return f"a tensor of shape {tuple(value.shape)} and dtype {value.storage.dtype}"
        case list():
            parts = [f"{part:.6g}" if isinstance(part, (int, float)) else in_words(part) for part in value[:3]]
            return f"{says.counted(len(value), 'value')} ({', '.join(parts)}{', ...' if len(value) > 3 else ''})"
        case int() | float() | str():
            return repr(value)[:60]
    return f"a {type(value).__name__}"


def call(function: str, arguments: Sequence[Any], names: Sequence[str] = ()) -> str:
    """The call as a learner would write it, with `names` by keywords; long lists are cut short."""
    texts = [_short(argument) for argument in arguments]
    if names:
        texts = [f"{name}={text}" for name, text in zip(names, texts, strict=True)]
    return f"{function}({', '.join(texts)})"


def _short(argument: Any) -> str:
    if isinstance(argument, str):
        return f'"{argument}"'
    if isinstance(argument, list) and len(argument) > 2:
        first, second = (f"{part:.6g}" if isinstance(part, float) else str(part) for part in argument[:2])
        return f"[{first}, {second}, ... {len(argument)} in all]"
    return str(argument)


def apart(got: float, right: float) -> tuple[str, str]:
    """Both numbers with six digits, or as many as it takes to see that they differ."""
    for digits in (6, 9, 17):
        texts = f"{got:.{digits}g}", f"{right:.{digits}g}"
        if texts[0] != texts[1] or math.isclose(got, right, rel_tol=1e-9):
            break
    return texts


def results(
    bench: RankBench, group: str, read: Callable[[Any], T | None], wanted: str
) -> tuple[list[tuple[Case, T]], Lost | None]:
    """What each call of `group` returned, as `read` reads it, up to the first that did not finish or returned something
    else than `wanted`; and that loss, to be raised when nothing before it is wrong."""
    found: list[tuple[Case, T]] = []
    try:
        for case, result in bench.calls(group):
            value = read(result.returned[0])
            if value is None:
                raise _no_such_value(bench, case, result.returned[0], wanted)
            found.append((case, value))
    except Lost as loss:
        return found, _with_its_call(loss)
    return found, None


def _with_its_call(loss: Lost) -> Lost:
    """A call that did not return: the trace of one that has no messages does not say which it was."""
    if loss.picture is None or loss.picture.result or loss.diagnosis.kind not in BROKEN_OFF:
        return loss
    case = loss.picture.case
    message = f"{loss.picture.run.diagnoses[0].message} The call was `{call(case.function, case.arguments[0])}`."
    return Lost(replace(loss.diagnosis, message=message), loss.picture)


def _no_such_value(bench: RankBench, case: Case, value: Any, wanted: str) -> Lost:
    got = in_words(value)
    advice = ""
    if value is None:
        advice = " A function without a `return` statement returns None."
    elif isinstance(value, Other) or (isinstance(value, list) and any(isinstance(part, Other) for part in value)):
        advice = " Return plain Python numbers, such as float(x) or int(x)."
    made = call(case.function, case.arguments[0])
    message = f"`{made}` returned {got}, but must return {wanted}.{advice}"
    return bench.lost(case, "wrong_result", message, None, wanted, got)
