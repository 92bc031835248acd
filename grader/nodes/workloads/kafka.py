"""kafka: logs that clients append messages to, read by offsets, and keep their place in (Maelstrom, doc/workloads.md).

Requests are send {key, msg}, poll {offsets: {key: from}}, commit_offsets {offsets: {key: last}} and
list_committed_offsets {keys}. A client reads some keys at a time from where their committed offsets are, commits what
each poll brought, and now and then chooses other keys. After the faults each client reads all keys from offset 0.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from grader.nodes.histories import logs
from grader.nodes.protocol import Body, Malformed, is_integer, quoted
from grader.nodes.workloads import kafka_words
from grader.nodes.workloads.mix import Keys, Mix
from grader.nodes.workloads.workload import Call, Event, Judgement, Memory, Op, Workload, calls, need, silent
from grader.says import counted

KEYS = 4
MIX = Mix(keys=KEYS)
SENDS, POLLS = 0.45, 0.9  # the rest are clients that choose other keys
MOST_POLLS = 1000  # of one client in a row after the faults
# what Maelstrom allows: a consumer that starts at an older committed offset reads messages again, and misses none
ALLOWED = frozenset({"back"})


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


def judge(events: Sequence[Event], nodes: Sequence[str]) -> Judgement:
    """Every log is one sequence of messages for all clients, and what was acknowledged is on all nodes in the end."""
    every = calls(events)
    operations = [operation for call in every if (operation := _operation(call)) is not None]
    final = _final(every)
    found = logs.findings([one for one in operations if not one.tag.final], final)
    wrong = [one for one in found if one.what not in ALLOWED]
    sends = [call for call in every if call.f == "send"]
    figures: dict[str, Any] = {
        "acknowledged": sum(call.ok for call in sends),
        "keys": len({call.key for call in sends}),
        "polled": sum(len(pairs) for one in operations if isinstance(one, logs.Poll) for pairs in one.got.values()),
        "commits": sum(call.f == "commit_offsets" and call.ok for call in every),
        "mistakes": dict(Counter(one.what for one in wrong)),
        "committed_offsets_back": sum(one.what in ALLOWED for one in found),
    }
    if wrong:
        more = f" {counted(len(wrong) - 1, 'more mistake')} of other kinds or keys." if len(wrong) > 1 else ""
        return Judgement(False, kafka_words.sentence(wrong[0]) + more, figures)
    reason = silent(nodes, final)
    if reason and sends:
        return Judgement(False, reason, figures)
    if not figures["acknowledged"]:
        return Judgement("unknown", "no message was acknowledged, so nothing could be lost", figures)
    words = f"all {counted(figures['acknowledged'], 'acknowledged message')} are in order on all nodes"
    return Judgement(True, words, figures)


def _operation(call: Call) -> logs.Operation | None:
    """A request as `logs` judges it; None for one that tells nothing, such as a poll without an answer."""
    begin, end = call.called, call.returned if call.ok else logs.NEVER
    status: logs.Status = "ok" if call.ok else "fail" if call.type == "fail" else "info"
    if call.f == "send":
        return logs.Send(call.key, call.asked, begin, end, call.value[0] if call.ok else None, status, call)
    if call.f == "commit_offsets":
        return logs.Commit(call.asked, begin, end, status, call)
    if not call.ok:
        return None
    if call.f == "poll":
        got = {key: [(offset, message) for offset, message in pairs] for key, pairs in call.value.items()}
        return logs.Poll(call.asked, got, begin, end, call)
    return logs.Listed(call.asked, call.value, begin, end, call)


def _final(every: Sequence[Call]) -> dict[str, list[logs.Poll]]:
    """By node, the polls of its last full read after the faults: one that begins with all keys at offset 0."""
    found: dict[str, list[logs.Poll]] = {}
    for call in every:
        if call.final and call.f == "poll":
            if not any(call.asked.values()):
                found[call.node] = []
            operation = _operation(call)
            if isinstance(operation, logs.Poll):
                found.setdefault(call.node, []).append(operation)
    return {node: polls for node, polls in found.items() if polls}
