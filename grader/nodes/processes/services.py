"""The key-value stores that every node may ask, under the names lin-kv, seq-kv and lww-kv (Maelstrom, doc/services.md).

Each is a function of the request, the asking node and the time: nothing here waits. Requests are read {key}, write
{key, value} and cas {key, from, to, create_if_not_exists}.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from grader.nodes.protocol import MALFORMED, NO_SUCH_KEY, NOT_SUPPORTED, PRECONDITION_FAILED, Body, error

MISSING = object()
PAST_STATES = 32  # how far seq-kv may look back
REPLICAS = 5
SKEW = 0.5  # seconds that a clock of lww-kv may be wrong by, either way
GOSSIP = 0.1  # seconds between two merges of lww-kv's replicas


class Service(Protocol):
    """Answers a request; the caller adds `in_reply_to`."""

    def handle(self, src: str, body: Body, now: float) -> Body: ...


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    return name(one) == name(other) or (type(one) in (int, float) and type(other) in (int, float) and one == other)


def name(key: Any) -> str:
    """A JSON value as something to look up by."""
    return json.dumps(key, sort_keys=True)


def apply(value: Any, body: Body) -> tuple[Any, Body]:
    """What a request makes of its key's value (MISSING if there is none), and the answer."""
    kind = body["type"]
    if kind == "write":
        return body["value"], {"type": "write_ok"}
    if kind == "cas" and value is MISSING and body.get("create_if_not_exists") is True:
        return body["to"], {"type": "cas_ok"}
    if value is MISSING:
        return value, error(NO_SUCH_KEY, "key does not exist")
    if kind == "read":
        return value, {"type": "read_ok", "value": value}
    if same(value, body["from"]):
        return body["to"], {"type": "cas_ok"}
    return value, error(PRECONDITION_FAILED, f"the value is {json.dumps(value)}, not {json.dumps(body['from'])}")


def wrong(body: Body) -> Body | None:
    """The error for a request that is none."""
    needed = {"read": ("key",), "write": ("key", "value"), "cas": ("key", "from", "to")}.get(str(body.get("type")))
    if needed is None:
        return error(NOT_SUPPORTED, f"a key-value service answers read, write and cas, not {body.get('type')!r}")
    for key in needed:
        if key not in body:
            return error(MALFORMED, f"{body['type']} without {key!r}")
    return None


class LinKv:
    """Linearizable: one copy, one request at a time."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def handle(self, src: str, body: Body, now: float) -> Body:
        key = name(body["key"])
        value, answer = apply(self._values.get(key, MISSING), body)
        if value is not MISSING:
            self._values[key] = value
        return answer


class SeqKv:
    """Sequentially consistent: what changes nothing may see any of the last states, but a node never sees time go back.

    A request that would change an old state is done on the newest instead, so there is one order of all changes.
    """

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._states: deque[dict[str, Any]] = deque([{}], maxlen=PAST_STATES)
        self._newest = 0
        self._seen: dict[str, int] = {}  # by node: the number of the latest state that it has seen

    def handle(self, src: str, body: Body, now: float) -> Body:
        key = name(body["key"])
        oldest = self._newest - len(self._states) + 1
        number = self._draw.randint(max(oldest, self._seen.get(src, 0)), self._newest)
        before = self._states[number - oldest].get(key, MISSING)
        after, answer = apply(before, body)
        if _changes(before, after):
            latest = self._states[-1]
            before = latest.get(key, MISSING)
            after, answer = apply(before, body)
            if _changes(before, after):
                self._states.append({**latest, key: after})
                self._newest += 1
            number = self._newest
        self._seen[src] = number
        return answer


def _changes(before: Any, after: Any) -> bool:
    return after is not MISSING and (before is MISSING or not same(before, after))


@dataclass(frozen=True)
class _Stamped:
    """A value, and when by the clock of the replica that took it; ties go to the greater replica."""

    time: float
    replica: int
    value: Any

    def later(self, other: _Stamped | None) -> bool:
        return other is None or (self.time, self.replica) > (other.time, other.replica)


class LwwKv:
    """Last write wins, on replicas whose clocks are wrong: any of them answers, and they tell each other later.

    A write that a replica takes for older than what it has is answered with write_ok, and is lost.
    """

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._skews = [draw.uniform(-SKEW, SKEW) for _ in range(REPLICAS)]
        self._replicas: list[dict[str, _Stamped]] = [{} for _ in range(REPLICAS)]
        self._merged = 0.0

    def handle(self, src: str, body: Body, now: float) -> Body:
        self._gossip(now)
        number = self._draw.randrange(REPLICAS)
        replica = self._replicas[number]
        key = name(body["key"])
        held = replica.get(key)
        before = MISSING if held is None else held.value
        after, answer = apply(before, body)
        if body["type"] != "read" and answer["type"] != "error":
            fresh = _Stamped(now + self._skews[number], number, after)
            if fresh.later(held):
                replica[key] = fresh
        return answer

    def _gossip(self, now: float) -> None:
        """Merge one replica into another for each GOSSIP seconds that have passed."""
        rounds = min(int((now - self._merged) / GOSSIP), 100)  # after so many all are equal
        if rounds:
            self._merged = now
        for _ in range(rounds):
            here, there = self._draw.sample(self._replicas, 2)
            for key, stamped in here.items():
                if stamped.later(there.get(key)):
                    there[key] = stamped


MAKE: Mapping[str, Callable[[random.Random], Service]] = {
    "lin-kv": lambda draw: LinKv(),
    "seq-kv": SeqKv,
    "lww-kv": LwwKv,
}


def start(seed: int) -> dict[str, Service]:
    """All services, empty."""
    return {each: make(random.Random(f"{seed}/{each}")) for each, make in MAKE.items()}


def answer(service: Service, src: str, body: Body, now: float) -> Body:
    """The answer to any request, also to one that makes no sense."""
    return wrong(body) or service.handle(src, body, now)
