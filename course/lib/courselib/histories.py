"""Histories in a chapter, for `judged`: written down in a line an operation, or those of an explored schedule.

four = history("A write 1 0-10", "B read 1 2-4", "C read - 5-7")      "-" is null: nothing was written yet
judged(four)                                                          the picture, with what contradicts in red
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from courselib.judged import Judged, judged
from grader.nodes.histories.history import Operation, pair
from grader.nodes.states import View

_LINE = re.compile(r"(\w+) (read|write) (?:(\w+)=)?(\S+) ([\d.]+)-([\d.]*)")


def history(*lines: str) -> list[Operation]:
    """Operations "WHO read|write [KEY=]VALUE FROM-TO": seconds, no TO where nobody knows the outcome, "-" for null.

    Raises ValueError for a line that is written otherwise.
    """
    events = []
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError(f'{line!r} is not "WHO read|write [KEY=]VALUE FROM-TO", as "A write x=1 0-10"')
        who, f, key, text, begin, end = found.groups()
        value = None if text == "-" else json.loads(text) if text.isdigit() else text
        same = {"process": who, "f": f, "key": key}
        events.append({**same, "type": "invoke", "value": None if f == "read" else value, "time": float(begin)})
        if end:
            events.append({**same, "type": "ok", "value": value, "time": float(end)})
    # where one ends when another begins, the two overlap: what ends comes last
    return pair(sorted(events, key=lambda event: (event["time"], event["type"] == "ok")))


def seen(asks: Mapping[str, Sequence[tuple[Any, ...]]], view: View) -> list[Operation]:
    """The reads and writes of an explored schedule; their times are places in it."""
    events = []
    for place, (client, number, answer) in enumerate(view.history):
        if number < 0:
            continue
        body = asks[client][number][1]
        f, value = body["type"], body.get("value")
        event = {"process": client, "f": f, "key": body.get("key"), "time": float(place)}
        if answer is None:
            events.append({**event, "type": "invoke", "value": value})
        elif answer.get("type") == f"{f}_ok":
            events.append({**event, "type": "ok", "value": answer.get("value") if f == "read" else value})
    return pair(events) if events else []


def contradiction(title: str, asks: Mapping[str, Sequence[tuple[Any, ...]]]) -> Callable[[View], Judged | None]:
    """What `explore` is to look for: a schedule whose history is not linearizable. It finds the Judged history."""

    def judge(view: View) -> Judged | None:
        found = judged(seen(asks, view), title=title) if view.history else None
        return found if found is not None and found.checked.valid is False else None

    return judge
