"""lin-kv: reads, writes and compare-and-sets that must look as if they happened one at a time (linearizable)."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from grader.nodes.histories import picture
from grader.nodes.histories.checker import linearizable
from grader.nodes.histories.history import pair
from grader.nodes.protocol import Body
from grader.nodes.workloads.workload import Event, Judgement, Op, Workload, calls, need, no_more
from grader.trace.story import Fault

KEYS = 3  # asked for at a time
TURNS = 150  # requests after which the keys change: what is long to judge is many requests of one key


def _operations(draw: random.Random) -> Iterator[Op]:
    """Half reads, a quarter each writes and cas; no value is written twice, so a read tells which write it saw."""
    fresh = 0
    for first in itertools.count(step=KEYS):
        recent: dict[int, deque[int]] = {}  # a cas expects one of the last values, or it would never succeed
        for _ in range(TURNS):
            key = first + draw.randrange(KEYS)
            written = recent.setdefault(key, deque(maxlen=3))
            kind = draw.random()
            if kind < 0.5 or (kind >= 0.75 and not written):
                yield Op("read", key=key)
                continue
            fresh += 1
            if kind < 0.75:
                yield Op("write", fresh, key)
            else:
                yield Op("cas", [draw.choice(list(written)), fresh], key)
            written.append(fresh)


def _request(op: Op) -> Body:
    body: Body = {"type": op.f, "key": op.key}
    if op.f == "write":
        body["value"] = op.value
    elif op.f == "cas":
        body["from"], body["to"] = op.value
    return body


def _answer(op: Op, body: Body) -> Any:
    return need(body, "value", object, "the key's value") if op.f == "read" else no_more(op, body)


def judge(events: Sequence[Event], nodes: Sequence[str]) -> Judgement:
    """Whether some order of all requests, each within its own time, explains every answer."""
    if not any(call.ok for call in calls(events)):
        return Judgement("unknown", "not one request was answered")
    found = linearizable(pair(events), "kv")
    return Judgement(found.valid, found.reason or "one order of all requests explains every answer")


def _picture(events: Sequence[Event], faults: Sequence[Fault]) -> str:
    """The operations around what no order explains."""
    operations = pair(events)
    return picture.svg(linearizable(operations, "kv"), operations, "What no order explains", faults)


LIN_KV = Workload(
    name="lin-kv",
    about="a linearizable key-value store: read, write, cas",
    operations=_operations,
    request=_request,
    answer=_answer,
    judge=judge,
    picture=_picture,
)
