"""A workload: requests drawn from a seed, what an answer must look like, and the judge of all that happened.

Events are dicts as Jepsen writes them: process, type (invoke, ok, fail or info), f, key, value, time (nanoseconds since
the first request could be made), error (a code of `grader.nodes.protocol`), and node: who was asked. Reads after
all faults were over have "final": true.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from grader.nodes.protocol import Body, Malformed
from grader.says import listed
from grader.trace.story import Fault

Event = dict[str, Any]
Valid = bool | Literal["unknown"]
SHOWN = 10  # values that are listed; figures count all


@dataclass(frozen=True)
class Op:
    """What a client asks for: a function, its argument, and in key-value workloads the key."""

    f: str
    value: Any = None
    key: Any = None


class Memory(Protocol):
    """What one client remembers from one request to the next, in workloads where that decides what it asks."""

    def request(self, op: Op, final: bool) -> Op:
        """What is really asked where the workload's operations, or `Workload.final`, say `op`."""
        ...

    def answered(self, op: Op, value: Any, final: bool) -> Op | None:
        """Take in an answer that was ok. What the client asks at once, before anything else; None for nothing."""
        ...

    def forget(self) -> None:
        """Start over: nobody knows how the last request ended, so a new process takes the client's place."""
        ...


@dataclass(frozen=True)
class Judgement:
    """What a judge says: whether all was right, a sentence for the first thing wrong, the workload's figures."""

    valid: Valid
    reason: str
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Workload:
    """One of Maelstrom's workloads.

    `request(op)` is the body that asks; `answer(op, body)` what an answer of type `<type>_ok` tells; it raises
    Malformed where something is missing. After the faults every node is asked for `final`, until the judge is content
    or time is up. `picture(events, faults)` draws what is wrong, as SVG; "" if it cannot. `memories()`
    gives for one run what makes a Memory for each of its clients; None where clients remember nothing.
    """

    name: str
    about: str
    operations: Callable[[random.Random], Iterator[Op]]
    request: Callable[[Op], Body]
    answer: Callable[[Op, Body], Any]
    judge: Callable[[Sequence[Event], Sequence[str]], Judgement]
    final: Op | None = None
    topology: bool = False
    picture: Callable[[Sequence[Event], Sequence[Fault]], str] | None = None
    memories: Callable[[], Callable[[], Memory]] | None = None


@dataclass(frozen=True)
class Call:
    """One request and its end. Times in seconds; `end` is None and `type` info where no answer came.

    `called` and `returned` are the places of its two events among all, `returned` infinite where `end` is None.
    """

    f: str
    key: Any
    asked: Any
    value: Any
    node: str
    start: float
    end: float | None
    type: str
    error: int | None
    final: bool
    process: int | str
    called: int
    returned: float

    @property
    def ok(self) -> bool:
        return self.type == "ok"


def calls(events: Sequence[Event]) -> list[Call]:
    """Each request with what ended it, in the order of requests."""
    found: list[Call | None] = []
    open_: dict[Any, tuple[int, int, Event]] = {}
    for at, event in enumerate(events):
        if event["type"] == "invoke":
            open_[event["process"]] = (len(found), at, event)
            found.append(None)
        else:
            place, called, began = open_.pop(event["process"])
            found[place] = _call(began, called, event, at)
    for place, called, began in open_.values():
        found[place] = _call(began, called, None, len(events))
    return [each for each in found if each is not None]


def _call(began: Event, called: int, ended: Event | None, returned: int) -> Call:
    last = ended or {**began, "type": "info"}
    return Call(
        f=began["f"],
        key=began.get("key"),
        asked=began["value"],
        value=last["value"],
        node=began.get("node", ""),
        start=began["time"] / 1e9,
        end=None if last["type"] == "info" else last["time"] / 1e9,
        type=last["type"],
        error=last.get("error"),
        final=bool(began.get("final")),
        process=began["process"],
        called=called,
        returned=math.inf if last["type"] == "info" else returned,
    )


def need(body: Body, key: str, kind: type | tuple[type, ...], what: str) -> Any:
    """The value under `key` of an answer. Raises Malformed where it is missing or of another kind."""
    if key not in body:
        raise Malformed(f"answered with {body.get('type')!r} without {key!r}, which must be {what}")
    value = body[key]
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds and object not in kinds):
        raise Malformed(f"answered with {body.get('type')!r} whose {key!r} is {value!r:.60}, not {what}")
    return value


def no_more(op: Op, body: Body) -> Any:
    """The answer of a request that only says that it is done: what was asked for."""
    return op.value


def silent(nodes: Sequence[str], last: Collection[str]) -> str:
    """A sentence for nodes that answered no final read (`last` has those that did), "" if all did."""
    missing = [node for node in nodes if node not in last]
    return f"{listed(missing)} did not answer a read, although all faults were over" if missing else ""
