"""What nodes in a box told of themselves: a learner's process can make it up, so it is read with care."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NoReturn

from grader.nodes.actors import Branch
from grader.nodes.life import SHORT_TEXT, Step
from grader.sandbox.client import plain

DEEPEST = 100  # levels of lists and objects in one message: what judges and pictures can go through


def step(told: Any, watched: tuple[str, ...]) -> Step:
    """A step as it was told, if it can be one. Raises one of NONSENSE."""
    effects, raised, state = told
    for effect in effects:
        if not _possible(effect):
            raise ValueError
    if raised is not None:
        line = raised["line"] if isinstance(raised["line"], int) else None
        raised = {"type": plain(raised["type"])[:100], "text": plain(raised["text"]), "line": line}
    if not isinstance(state, dict) or not state.keys() <= set(watched):
        raise ValueError
    for value in state.values():
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise ValueError
    return Step(effects, raised, state)


def branch(told: Any, watched: tuple[str, ...]) -> Branch:
    """A branch as it was told, if it can be one. Raises one of NONSENSE."""
    number, state = told["past"], told["state"]
    if not isinstance(number, int) or not isinstance(state, str):
        raise ValueError
    return Branch(step(told["step"], watched), number, state)


def _possible(effect: Any) -> bool:
    """Whether a node can have done this."""
    kind, line = effect[0], effect[-1]
    if line is not None and not isinstance(line, int):
        return False
    if kind == "cancel":
        _, name, _ = effect
        return isinstance(name, str)
    _, what, more, _ = effect
    if not isinstance(what, str):
        return False
    if kind == "send":
        return isinstance(more, str) and (_known_body(more) if len(more) <= SHORT_TEXT else _is_body(more))
    if kind == "timer":
        return isinstance(more, (int, float)) and 0 <= more < 1e9
    return bool(kind == "write") and (more is None or isinstance(more, str))


def _is_body(text: str) -> bool:
    """Whether a message's text is a JSON object that is not nested too deep. Raises ValueError where it is no JSON."""
    body = _STRICT.decode(text)
    return isinstance(body, dict) and (text.count("[") + text.count("{") <= DEEPEST or _depth(body) <= DEEPEST)


_known_body = lru_cache(maxsize=4096)(_is_body)  # heartbeats are the same again and again


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _depth(value: Any) -> int:
    """How deep lists and objects are nested in each other; no further than is of interest."""
    level, depth = [value], 0
    while level and depth <= DEEPEST:
        level = [
            part
            for one in level
            if isinstance(one, (dict, list))
            for part in (one.values() if isinstance(one, dict) else one)
        ]
        depth += 1
    return depth


_STRICT = json.JSONDecoder(parse_constant=_no_constant)


def in_words(effect: Any) -> str:
    kind, *rest = effect
    words = {
        "send": "send {1} to {0}",
        "write": "write {0} = {1}",
        "timer": "set timer {0} to {1}",
        "cancel": "cancel {0}",
    }
    return words.get(kind, "something else").format(*(plain(part)[:100] for part in rest))


def given(what: list[Any]) -> str:
    if what[0] == "message":
        return f"message {plain(what[2])[:120]} from {plain(what[1])}"
    return f"timer {plain(what[1])}" if what[0] == "timer" else "its start"
