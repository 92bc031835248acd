"""Requests to a replicated log and their answers, as Maelstrom's kafka workload writes them, as operations for `logs`.

send {key, msg} -> send_ok {offset}; poll {offsets} -> poll_ok {msgs}; commit_offsets {offsets} -> commit_offsets_ok;
list_committed_offsets {keys} -> list_committed_offsets_ok {offsets} (Maelstrom, doc/workloads.md, "Kafka").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grader.nodes.clients import DEFINITE
from grader.nodes.histories.logs import NEVER, Commit, Listed, Operation, Poll, Send, Status
from grader.nodes.protocol import is_integer

REQUESTS = ("send", "poll", "commit_offsets", "list_committed_offsets")


@dataclass(frozen=True)
class Malformed:
    """An answer that is none: what is wrong with it, as half a sentence that goes on from the answer, and what was
    wanted."""

    text: str
    wanted: str


def operation(
    request: Mapping[str, Any], answer: Mapping[str, Any] | None, begin: float, end: float | None, tag: Any = None
) -> Operation | Malformed | None:
    """What clients know by a request and its answer (None: none came). None for a poll or a list that was not answered
    ok, and for other requests. An error that is no promise, and an answer of another type, count as no answer."""
    kind, answer = request.get("type"), answer or {}
    ok = answer.get("type") == f"{kind}_ok" and end is not None
    refused = answer.get("type") == "error" and is_integer(answer.get("code")) and answer["code"] in DEFINITE
    status: Status = "ok" if ok else "fail" if refused else "info"
    until = end if ok and end is not None else NEVER
    match kind:
        case "send":
            if ok and not _offset(answer.get("offset")):
                return Malformed(f"has the offset {answer.get('offset')!r}", "an integer from 0 on as offset")
            return Send(request["key"], request["msg"], begin, until, answer.get("offset") if ok else None, status, tag)
        case "poll" if ok:
            got = _pairs(answer.get("msgs"))
            return got if isinstance(got, Malformed) else Poll(request["offsets"], got, begin, until, tag)
        case "commit_offsets":
            return Commit(request["offsets"], begin, until, status, tag)
        case "list_committed_offsets" if ok:
            offsets = answer.get("offsets")
            if not isinstance(offsets, dict):
                return Malformed(f"has the offsets {offsets!r}", "a dict {key: offset} as offsets")
            for key, offset in offsets.items():
                if key not in request["keys"]:
                    return Malformed(f"has an offset of key {key!r}, which was not asked for", "only keys asked for")
                if not is_integer(offset):
                    return Malformed(f"has the offset {offset!r} for key {key!r}", "integers, or no entry for the key")
            return Listed(tuple(request["keys"]), offsets, begin, until, tag)
    return None


def _offset(value: object) -> bool:
    return isinstance(value, int) and is_integer(value) and value >= 0


def _pairs(msgs: object) -> dict[str, list[tuple[int, Any]]] | Malformed:
    """The pairs of a poll's answer, by key."""
    wanted = "a dict {key: [[offset, message], ...]} as msgs"
    if not isinstance(msgs, dict):
        return Malformed(f"has the msgs {msgs!r}", wanted)
    found: dict[str, list[tuple[int, Any]]] = {}
    for key, pairs in msgs.items():
        if not isinstance(pairs, list):
            return Malformed(f"has {pairs!r} for key {key!r}", wanted)
        found[key] = []
        for pair in pairs:
            if not (isinstance(pair, list) and len(pair) == 2 and _offset(pair[0])):
                return Malformed(f"has the pair {pair!r} for key {key!r}", wanted)
            found[key].append((pair[0], pair[1]))
    return found
