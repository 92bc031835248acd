"""kafka: logs that clients append messages to, read by offsets, and keep their place in (Maelstrom, doc/workloads.md).

Requests are send {key, msg}, poll {offsets: {key: from}}, commit_offsets {offsets: {key: last}} and
list_committed_offsets {keys}. A client reads some keys at a time from where their committed offsets are, commits what
each poll brought, and now and then chooses other keys. After the faults each client reads all keys from offset 0.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from grader.nodes.histories import logs
from grader.nodes.protocol import Body, Malformed, is_integer, quoted
from grader.nodes.workloads.mix import Keys, Mix
from grader.nodes.workloads.workload import Event, Judgement, Memory, Op, Workload, need

MIX = Mix(keys=4)
SENDS, POLLS = 0.45, 0.9  # the rest are clients that choose other keys
MOST_POLLS = 1000  # of one client in a row after the faults


def workload(mix: Mix = MIX) -> Workload:
    """The workload, with so many keys at a time and messages a key."""

    def operations(draw: random.Random) -> Iterator[Op]:
        keys = Keys(mix, draw)
        while True:
            kind = draw.random()
            if kind < SENDS:
                key = keys.choose()
                yield Op("send", keys.write(key), str(key))
            else:
                chosen = sorted(draw.sample(keys.now, draw.randint(1, len(keys.now))))
                yield Op("poll" if kind < POLLS else "list_committed_offsets", [str(key) for key in chosen])

    return Workload(
        name="kafka",
        about="logs of messages, read by offsets that are committed",
        operations=operations,
        request=_request,
        answer=_answer,
        judge=judge,
        final=Op("drain"),
        memories=_memories,
    )


class Consumer:
    """One client's place in the logs that it reads. All clients of a run share `known`, the keys ever asked for."""

    def __init__(self, known: dict[str, None]) -> None:
        self._known = known
        self._next: dict[str, int] = {}  # by key, the first offset of the next poll
        self._polls = 0

    def request(self, op: Op, final: bool) -> Op:
        if op.f == "send":
            self._known[op.key] = None
            return op
        if op.f == "drain":
            self._next, self._polls = dict.fromkeys(self._known, 0), 0
            return Op("poll", dict(self._next))
        if op.f == "poll" and self._next:
            return Op("poll", dict(self._next))
        return Op("list_committed_offsets", op.value)  # a poll of a client that has no keys yet needs some first

    def answered(self, op: Op, value: Any, final: bool) -> Op | None:
        if op.f == "list_committed_offsets":
            self._next = {key: value.get(key, -1) + 1 for key in op.value}
        if op.f != "poll":
            return None
        last = {key: max(offset for offset, _ in pairs) for key, pairs in value.items() if pairs}
        self._polls += 1
        grown = {key: offset + 1 for key, offset in last.items() if offset >= self._next.get(key, 0)}
        self._next.update(grown)
        if not final:
            return Op("commit_offsets", last) if last else None
        return Op("poll", dict(self._next)) if grown and self._polls < MOST_POLLS else None

    def forget(self) -> None:
        self._next = {}


def _memories() -> Callable[[], Memory]:
    known: dict[str, None] = {}
    return lambda: Consumer(known)


def _request(op: Op) -> Body:
    if op.f == "send":
        return {"type": "send", "key": op.key, "msg": op.value}
    name = "keys" if op.f == "list_committed_offsets" else "offsets"
    return {"type": op.f, name: op.value}


def _answer(op: Op, body: Body) -> Any:
    if op.f == "send":
        offset = need(body, "offset", int, "the message's offset, an integer")
        return [_offset(offset, body), op.value]
    if op.f == "poll":
        found = need(body, "msgs", dict, "an object of arrays of [offset, message]")
        for key, pairs in found.items():
            if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
                raise Malformed(f"answered with 'poll_ok' whose messages of key {quoted(key)} are "
                                f"{quoted(str(pairs))}, not an array of [offset, message]")  # fmt: skip
            for offset, _ in pairs:
                _offset(offset, body)
        return found
    if op.f == "list_committed_offsets":
        found = need(body, "offsets", dict, "an object of offsets by key")
        return {key: _offset(offset, body) for key, offset in found.items()}
    return op.value


def _offset(value: Any, body: Body) -> int:
    if not is_integer(value) or value < 0:
        raise Malformed(f"answered with {body['type']!r} that has the offset {quoted(repr(value))}. "
                        "An offset is an integer, 0 or more")  # fmt: skip
    return int(value)
