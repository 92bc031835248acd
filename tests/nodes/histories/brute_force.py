"""Histories at random, and whether they are linearizable or sequentially consistent, found the slow and plain way."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from grader.nodes.histories.history import Operation, pair
from grader.nodes.histories.models import Model

FUNCTIONS = {
    "register": ("read", "write"),
    "cas-register": ("read", "write", "cas"),
    "kv": ("read", "write", "cas", "append"),
}


def linearizable(operations: Sequence[Operation], model: Model) -> bool:
    """Whether some order explains the operations of one key, which are few: tries them all."""
    happened = tuple(operation for operation in operations if operation.status != "fail")

    @cache
    def rest(left: frozenset[int], state: Any) -> bool:
        must = [happened[at] for at in left if happened[at].status != "info"]
        if not must:
            return True
        for at in left:
            if not any(other.before(happened[at]) for other in must):
                fits, after = model.step(state, happened[at])
                if fits and rest(left - {at}, after):
                    return True
        return False

    return rest(frozenset(range(len(happened))), model.initial)


def sequential(operations: Sequence[Operation], model: Model) -> bool:
    """Whether some order explains the operations of all keys in which those of each process keep theirs."""
    happened = tuple(operation for operation in operations if operation.status != "fail")
    keys = sorted({operation.key for operation in happened}, key=str)

    @cache
    def rest(left: frozenset[int], states: tuple[Any, ...]) -> bool:
        must = [at for at in left if happened[at].status != "info"]
        if not must:
            return True
        for at in left:
            one = happened[at]
            if any(happened[other].process == one.process and happened[other].before(one) for other in must):
                continue
            place = keys.index(one.key)
            fits, after = model.step(states[place], one)
            if fits and rest(left - {at}, (*states[:place], after, *states[place + 1 :])):
                return True
        return False

    return rest(frozenset(range(len(happened))), (model.initial,) * len(keys))


def history(draw: random.Random, model: str, most: int = 7, keys: Sequence[str] = ("x",)) -> list[Operation]:
    """Up to `most` operations of 2 to 4 processes that return anything that was ever written, or near it."""
    return pair(events(draw, model, most, keys))


def events(draw: random.Random, model: str, most: int = 7, keys: Sequence[str] = ("x",)) -> list[dict[str, Any]]:
    values: list[Any] = ["a", "b", "c"][: draw.randint(1, 3)] if model == "kv" else [1, 2, 3, 4][: draw.randint(1, 4)]
    fresh = draw.random() < 0.3  # then every value is written once
    texts = ["", None, "a", "b", "ab", "ba", "aa", "abc", "bac", "aab"]
    processes, made, time = list(range(draw.randint(2, 4))), 0, 0
    wanted = draw.randint(1, most)
    open_: dict[int, dict[str, Any]] = {}
    out: list[dict[str, Any]] = []
    while made < wanted or open_:
        time += draw.randint(0, 2)
        place = draw.randrange(len(processes))
        process = processes[place]
        if process not in open_:
            if made == wanted:
                continue
            f = draw.choice(FUNCTIONS[model])
            value: Any = made if fresh and model != "kv" else draw.choice(values)
            if f == "cas":
                value = [draw.choice([*values, None]), value]
            event = {
                "process": process,
                "type": "invoke",
                "f": f,
                "key": draw.choice(keys),
                "value": None,
                "time": time,
            }
            if f != "read":
                event["value"] = value
            made += 1
            out.append(event)
            open_[process] = event
            continue
        event = open_.pop(process)
        ended = {**event, "time": time, "type": draw.choice(["ok"] * 6 + ["fail", "info"])}
        if event["f"] == "read":
            pool = texts if model == "kv" else [*values, None, *(range(made) if fresh else ())]
            ended["value"] = draw.choice(pool)
        if event["f"] == "cas" and ended["type"] == "fail" and draw.random() < 0.8:
            ended["error"] = 22
        if draw.random() < 0.06:
            processes[place] += 10  # its completion was never seen: that process is gone, and another one comes
            continue
        out.append(ended)
    return out
