"""Makes a learner's clocks or replicated values, does with them what it is told, and asks them. It decides nothing."""

from __future__ import annotations

import json
from typing import Any

MOST = 14  # steps that are told before one that raises


def run(make: Any, scripts: list[list[list[Any]]], written: list[list[str]]) -> dict[str, Any]:
    """What was answered in each script. A step is [what, object's name, ...]; objects are made as they are named. An
    error says in which step of the script it was raised, in the words of `written`."""
    answers = []
    for script, lines in zip(scripts, written, strict=True):
        done: list[int] = []
        try:
            answers.append(_one(make, script, done))
        except Exception as error:
            before = ["..."][: done[-1] > MOST] + lines[max(0, done[-1] - MOST) : done[-1]]
            after = f", after `{'; '.join(before)}`" if before else ""
            vars(error)["in_call"] = f"The call was `{lines[done[-1]]}`{after}."
            raise
    return {"answers": answers}


def _one(make: Any, script: list[list[Any]], done: list[int]) -> list[Any]:
    objects: dict[str, Any] = {}
    answers: list[Any] = []
    for number, (what, name, *rest) in enumerate(script):
        done.append(number)
        if what == "new":
            objects[name] = make()
        elif what == "do":
            method, args, kwargs = rest
            getattr(objects[name], method)(*args, **kwargs)
        elif what == "merge":
            objects[name].merge(objects[rest[0]])
        elif what == "copy":
            told = objects[rest[0]].to_json()
            try:
                text = json.dumps(told, allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                return [*answers, {"not_json": f"{type(error).__name__}: {error}"}]
            objects[name] = make.from_json(json.loads(text))
        elif what == "compare":
            answers.append(_plain(objects[name].compare(objects[rest[0]])))
        else:
            answers.append(_plain(objects[name].value()))
    return answers


def _plain(value: Any) -> Any:
    """A value that can be told: any of JSON as it is, collections that are not JSON as their elements."""
    if isinstance(value, (set, frozenset, tuple, list)) or type(value).__name__ in ("dict_keys", "dict_values"):
        return {"elements": [_plain(element) for element in value]}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(element)] for key, element in value.items()]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"is": value}
    return {"other": type(value).__name__}
