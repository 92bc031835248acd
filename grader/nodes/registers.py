"""What clients of a store saw of one key, where every write has a value of its own: whether one order of all of it
explains what they saw, and which writes followed which.

Gibbons, Korach 1997, "Testing shared memories", section 4: where values are unique, a history is linearizable if no two
values must come before each other. So a violation always has four operations that show it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

from grader.nodes.clients import DEFINITE, Asked

NEVER = math.inf
NOTHING = "null"  # what a key holds before anybody writes, as JSON


@dataclass(frozen=True)
class Operation:
    """A request for one key as it ended: `value` is what was written or read, as JSON text; "null" for none.

    `done` is whether it took effect: True, False, or None where nobody knows; a read without an answer has no part.
    `end` is infinite unless it was answered by read_ok or write_ok.
    """

    what: str  # read | write
    key: str
    value: str
    start: float
    end: float
    done: bool | None
    asked: Asked

    @property
    def node(self) -> str:
        return self.asked.ask.node


def operation(asked: Asked) -> Operation | None:
    """A read or write of a client, a cas among the writes (of what it sets); None for a read that was not answered, and
    for any other request."""
    body, answer = asked.ask.body, asked.answer or {}
    what, kind = body["type"], answer.get("type")
    if what not in ("read", "write", "cas"):
        return None
    key = json.dumps(body["key"])
    refused = kind == "error" and answer.get("code") in DEFINITE
    assert asked.answered is not None or not answer
    if what == "read":
        if refused and answer.get("code") == 20:  # Maelstrom's "there is no such key"
            kind, answer = "read_ok", {}
        if kind != "read_ok":
            return None
        value = json.dumps(answer.get("value"), sort_keys=True)
        return Operation("read", key, value, asked.sent, asked.answered or NEVER, True, asked)
    value = json.dumps(body["to" if what == "cas" else "value"], sort_keys=True)
    if kind == f"{what}_ok":
        return Operation("write", key, value, asked.sent, asked.answered or NEVER, True, asked)
    return Operation("write", key, value, asked.sent, NEVER, False if refused else None, asked)


def operations(asked: Iterable[Asked]) -> list[Operation]:
    """The operations of all requests, in the order in which they began."""
    found = [one for one in map(operation, asked) if one is not None]
    return sorted(found, key=lambda one: one.start)


def by_key(found: Iterable[Operation]) -> dict[str, list[Operation]]:
    """The same, key by key."""
    keys: dict[str, list[Operation]] = {}
    for one in found:
        keys.setdefault(one.key, []).append(one)
    return keys


# ---- linearizable or not


@dataclass(frozen=True)
class Unwritten:
    """A read of a value that nobody wrote; or that of `refused`, a write which promised that nothing happened."""

    read: Operation
    refused: Operation | None = None


@dataclass(frozen=True)
class Conflict:
    """Two values that must come before each other. `first` (None: nobody ever wrote) had ended before `second` began,
    which is of a later value; `known` of that later value had ended before `stale` began, which is of the earlier one.
    """

    first: Operation | None
    second: Operation
    known: Operation
    stale: Operation


def conflict(history: Iterable[Operation]) -> Unwritten | Conflict | None:
    """Why no order explains this history of one key, by the read that shows it first; None if one does."""
    listed = list(history)
    refused = {one.value: one for one in listed if one.what == "write" and one.done is False}
    writes = [one for one in listed if one.what == "write" and one.done is not False]
    began = {NOTHING: -NEVER, **{one.value: one.start for one in writes}}
    reads = sorted((one for one in listed if one.what == "read"), key=lambda one: one.end)
    values: dict[str, list[Operation]] = {write.value: [write] for write in writes}
    for read in reads:
        if began.get(read.value, NEVER) > read.end:
            return Unwritten(read, refused.get(read.value))
        values.setdefault(read.value, []).append(read)
        found = [
            one for value, those in values.items() if value != read.value
            if (one := _against(read, values[read.value], those)) is not None
        ]  # fmt: skip
        if found:
            return min(found, key=lambda one: (one.known.what != "write", -one.known.end))
    return None


def _against(read: Operation, same: list[Operation], those: list[Operation]) -> Conflict | None:
    """Whether a read shows that its value must come before and after another one, that of `those`."""
    known = min(those, key=lambda one: one.end)
    first = None if read.value == NOTHING else min(same, key=lambda one: one.end)
    later = [one for one in those if (first is None or first.end < one.start) and one.start < read.end]
    if known.end < read.start and later and known.value != NOTHING:
        return Conflict(first, min(later, key=lambda one: one.start), known, read)
    return None


# ---- what followed what


class Causes:
    """Which writes of one key followed which: a write at a node follows all values that this node had confirmed or
    shown to some client before the write was asked for, and what those followed."""

    def __init__(self, history: Iterable[Operation]) -> None:
        listed = sorted(history, key=lambda one: one.start)
        self._shown: dict[str, list[Operation]] = {}
        for one in listed:
            if one.end < NEVER:
                self._shown.setdefault(one.node, []).append(one)
        self.writes = {one.value: one for one in listed if one.what == "write"}
        self._parents = {
            value: {other.value for other in self.seen(one.node, one.start)} for value, one in self.writes.items()
        }

    def seen(self, node: str, time: float) -> list[Operation]:
        """What a node had confirmed or shown by then, in the order in which it did."""
        return sorted((one for one in self._shown.get(node, []) if one.end <= time), key=lambda one: one.end)

    def followed(self, value: str) -> frozenset[str]:
        """All that a value followed; also null, unless it is that itself."""
        found: set[str] = set()
        waiting = [value]
        while waiting:
            new = self._parents.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return frozenset((found | {NOTHING}) - {value})

    def overtook(self, value: str) -> Operation | None:
        """A confirmed write that followed `value`, which may not be what is left in the end."""
        confirmed = (one for one in self.writes.values() if one.done)
        return next((one for one in confirmed if value in self.followed(one.value)), None)


def answered(asked: Asked) -> bool:
    """Whether a request was answered as it asks for: not by an error."""
    found = operation(asked)
    return found is not None and found.end < NEVER
