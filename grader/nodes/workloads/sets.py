"""broadcast and g-set: values that are added to one node must in the end be read from all, as in Jepsen's set-full."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader.nodes.protocol import Body, error_name
from grader.nodes.workloads.figures import spread
from grader.nodes.workloads.workload import (
    SHOWN,
    Call,
    Event,
    Judgement,
    Op,
    Workload,
    calls,
    need,
    no_more,
    silent,
)  # fmt: skip
from grader.says import at, listed


def _operations(f: str) -> Callable[[random.Random], Iterator[Op]]:
    def draw(random_: random.Random) -> Iterator[Op]:
        values = itertools.count()
        while True:
            yield Op(f, next(values)) if random_.random() < 0.5 else Op("read")

    return draw


def _request(f: str, argument: str) -> Callable[[Op], Body]:
    return lambda op: {"type": "read"} if op.f == "read" else {"type": f, argument: op.value}


def _answer(key: str) -> Callable[[Op, Body], Any]:
    def answer(op: Op, body: Body) -> Any:
        if op.f != "read":
            return no_more(op, body)
        return need(body, key, list, "the list of all values that this node has")

    return answer


Name = int | str  # a value as something to look up by: an integer as it is, anything else as JSON


@dataclass(frozen=True)
class _Read:
    """A read that was answered: the call, and the names of its values."""

    call: Call
    names: list[Name]
    having: set[Name]


@dataclass
class _Fate:
    """A value that a client added: the request, and what reads showed of it."""

    call: Call
    seen: float | None = None  # when a read first showed it
    missed: float | None = None  # the start of the last read that did not show it, though it was acknowledged before


def judge(events: Sequence[Event], nodes: Sequence[str]) -> Judgement:
    """Each acknowledged value, and each that a read has shown, must be in every node's final read, once."""
    every = calls(events)
    fates = {_name(call.asked): _Fate(call) for call in every if call.f != "read"}
    reads = [_read(call) for call in every if call.f == "read" and call.ok]
    _follow(fates, reads)
    last = {read.call.node: read.having for read in reads if read.call.final}
    must = [name for name, fate in fates.items() if fate.call.ok or fate.seen is not None]
    absent = {name: [node for node in nodes if node in last and name not in last[node]] for name in must}
    lost = {name: where for name, where in absent.items() if where}
    twice = [read for read in reads if len(read.having) < len(read.names)]
    repeated = sorted({name for read in twice for name, count in Counter(read.names).items() if count > 1}, key=str)
    found = {
        "acknowledged": sum(fate.call.ok for fate in fates.values()),
        **_some("lost", lost),
        **_some("never_read", [name for name in must if fates[name].seen is None]),
        **_some("stale", [name for name in must if fates[name].missed is not None]),
        **_some("duplicated", repeated),
        "stable_latency_ms": _stable([fates[name] for name in must if name not in lost]),
    }
    reason = (
        _unexpected(reads, fates) or (_twice(twice[0]) if twice else "") or silent(nodes, last) or _lost(lost, fates)
    )
    if reason:
        return Judgement(False, reason, found)
    if not found["acknowledged"]:
        return Judgement("unknown", "no value was acknowledged, so nothing could be lost", found)
    return Judgement(True, f"all {len(must)} values are on all nodes", found)


def _name(value: Any) -> Name:
    return value if type(value) is int else json.dumps(value, sort_keys=True)


def _read(call: Call) -> _Read:
    names = [_name(value) for value in call.value]
    return _Read(call, names, set(names))


def _follow(fates: dict[Name, _Fate], reads: list[_Read]) -> None:
    """Note for each value which read first showed it, and which last missed it."""
    unseen = set(fates)
    for read in sorted(reads, key=lambda read: read.call.end or 0.0):
        for name in unseen & read.having:
            fates[name].seen = read.call.end
        unseen -= read.having
    ended = sorted((fate.call.end, str(name), name) for name, fate in fates.items() if fate.call.ok and fate.call.end)
    ended.reverse()
    acknowledged: set[Name] = set()
    for read in sorted(reads, key=lambda read: read.call.start):
        while ended and ended[-1][0] < read.call.start:
            acknowledged.add(ended.pop()[2])
        for name in acknowledged - read.having:
            fates[name].missed = read.call.start


def _some(key: str, names: Collection[Name]) -> dict[str, Any]:
    """How many values, and the first of them."""
    shown = [name if isinstance(name, int) else json.loads(name) for name in itertools.islice(names, SHOWN)]
    return {key: len(names), f"{key}_values": shown}


def _stable(fates: list[_Fate]) -> dict[str, float] | None:
    """From an acknowledgement to the last read that did not show the value, in milliseconds."""
    took = sorted(1000 * max(0.0, (fate.missed or 0.0) - (fate.call.end or 0.0)) for fate in fates if fate.call.ok)
    return spread(took) if took else None


def _unexpected(reads: list[_Read], fates: dict[Name, _Fate]) -> str:
    for name, fate in fates.items():
        if fate.seen is not None and fate.seen < fate.call.start:
            return f"a read showed {name} at {at(fate.seen)}, before any client added it at {at(fate.call.start)}"
    failed = {name for name, fate in fates.items() if fate.call.type == "fail"}
    for read in reads:
        node, end = read.call.node, read.call.end or 0.0
        for name in read.having - fates.keys():
            return f"{node} showed {name!s:.60} at {at(end)}, which no client ever added"
        for name in read.having & failed:
            call = fates[name].call
            return (
                f"{node} showed {name}, but {call.node} had answered its {call.f} with error "
                f"{error_name(call.error or 0)}, which promises that it did not happen and never will"
            )
    return ""


def _twice(read: _Read) -> str:
    name, count = Counter(read.names).most_common(1)[0]
    end = at(read.call.end or 0.0)
    return f"{read.call.node} showed the value {name} {count} times in one read at {end}, but a set holds it once"


def _lost(lost: dict[Name, list[str]], fates: dict[Name, _Fate]) -> str:
    if not lost:
        return ""
    name, where = next(iter(lost.items()))
    fate = fates[name]
    known = f"{fate.call.node} acknowledged at {at(fate.call.end or 0)}"
    if not fate.call.ok:
        known = f"a read had shown at {at(fate.seen or 0)}"
    never = ", and no read ever showed it" if fate.seen is None else ""
    more = f"; {len(lost)} values are lost in all" if len(lost) > 1 else ""
    return f"at the end {listed(where)} did not have {name}, which {known}{never}{more}"


BROADCAST = Workload(
    name="broadcast",
    about="values told to one node reach all",
    operations=_operations("broadcast"),
    request=_request("broadcast", "message"),
    answer=_answer("messages"),
    judge=judge,
    final=Op("read"),
    topology=True,
)
G_SET = Workload(
    name="g-set",
    about="a set that only grows, on all nodes",
    operations=_operations("add"),
    request=_request("add", "element"),
    answer=_answer("value"),
    judge=judge,
    final=Op("read"),
)
