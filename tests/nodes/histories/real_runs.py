"""Histories that a right store gives: every operation takes effect at one moment between its call and its return."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

Event = dict[str, Any]


def events(
    draw: random.Random,
    model: str,
    operations: int,
    processes: int = 4,
    keys: Sequence[str] = ("x",),
    values: int = 4,
    lost: float = 0.1,
) -> list[Event]:
    """The events of so many operations; `lost` is how many of them end as "info", half of those without effect.

    `values` is how many different ones are written; 0 for a new one each time.
    """
    empty = "" if model == "kv" else None
    state: dict[str, Any] = dict.fromkeys(keys, empty)
    free = [0.0] * processes
    plan = []
    for number in range(operations):
        place = min(range(processes), key=lambda at: free[at] + draw.random())
        start = free[place] + draw.uniform(0.0, 1.0)
        end = start + draw.uniform(0.1, 3.0)
        free[place] = end
        value: Any = draw.randrange(values) if values else number
        f = draw.choice(_FUNCTIONS[model])
        plan.append((draw.uniform(start, end), start, end, place, f, draw.choice(keys), value, draw.random() < lost))
    out: list[Event] = []
    names = list(range(processes))
    made = []
    for point, start, end, place, f, key, value, gone in sorted(plan):
        made.append((start, point, end, place, f, key, value, gone))
    ends: dict[int, Event] = {}
    for number, (_, _, _, _, f, key, value, gone) in enumerate(made):
        ends[number] = _effect(draw, state, f, key, f"{value} " if model == "kv" else value, gone)
    for number, (start, _, end, place, f, key, _, gone) in sorted(enumerate(made), key=lambda one: one[1][0]):
        effect = ends[number]
        name = names[place]
        out.append({"process": name, "type": "invoke", "f": f, "key": key, "value": effect.pop("asked"), "time": start})
        out.append({"process": name, "f": f, "key": key, "time": end, **effect})
        if gone:
            names[place] += processes
    return sorted(out, key=lambda event: float(event["time"]))


_FUNCTIONS = {
    "register": ("read", "write"),
    "cas-register": ("read", "write", "cas"),
    "kv": ("read", "write", "append", "append", "cas"),
}


def _effect(draw: random.Random, state: dict[str, Any], f: str, key: str, value: Any, gone: bool) -> Event:
    """Do it, and say how it ends: "asked" is its argument."""
    old = state[key]
    if f == "read":
        return {"asked": None, "type": "info" if gone else "ok", "value": old}
    if f == "cas":
        value = [old if draw.random() < 0.7 else value, value]
    happens = not gone or draw.random() < 0.5
    fits = f != "cas" or value[0] == old
    if happens and fits:
        state[key] = value[1] if f == "cas" else old + value if f == "append" else value
    ending: Event = {"asked": value, "value": value, "type": "info" if gone else "ok" if fits else "fail"}
    return ending if fits or gone else {**ending, "error": 22}


def mutated(draw: random.Random, history: list[Event]) -> list[Event]:
    """The same with one read that returns what another one returned, or what was written or appended anywhere."""
    reads = [at for at, event in enumerate(history) if event["f"] == "read" and event["type"] == "ok"]
    if not reads:
        return history
    at = draw.choice(reads)
    pool = [event["value"] for event in history if event["type"] == "ok" and event["f"] in ("read", "write")]
    return [*history[:at], {**history[at], "value": draw.choice([None, *pool])}, *history[at + 1 :]]
