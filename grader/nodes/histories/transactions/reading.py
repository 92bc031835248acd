"""Histories of transactions, read as Jepsen writes them: JSON lines or EDN.

An event is {"process", "type": invoke|ok|fail|info, "f": "txn", "value": [["append", 1, 2], ["r", 1, [2]]], "time",
"index"}. What was asked stands in the invocation, what reads returned in the completion. A transaction is named by the
`index` of its completion, or where the events have none, by the line of it. If it has no completion, those of its
invocation count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.nodes.histories import history
from grader.nodes.histories.history import NEMESIS, NEVER, TYPES, Asked, called, shortened
from grader.nodes.histories.transactions.transaction import Op, Status, Transaction
from grader.submission import BadRequest

_FUNCTIONS = {"list-append": ("append", "r"), "rw-register": ("w", "r")}


def read(path: Path, workload: str = "list-append") -> list[Transaction]:
    """The transactions of a file, in the order in which they began. Raises BadRequest."""
    return parse(history.text_of(path), workload, str(path))


def parse(text: str, workload: str = "list-append", name: str = "history") -> list[Transaction]:
    """The transactions of a text; `name` is what messages call it. Raises BadRequest."""
    events, lines = history.events_of(text, name)
    return pair(events, workload, name, lines)


def pair(
    events: Sequence[Mapping[str, Any]], workload: str = "list-append", name: str = "history",
    lines: Sequence[int] | None = None,
) -> list[Transaction]:  # fmt: skip
    """The transactions that these events begin and end. Raises BadRequest, with one sentence that names the line."""

    def check(event: Mapping[str, Any], where: str) -> None:
        _check(event, where, workload)

    asked = history.paired(events, name, lines, check, _match)
    numbers = range(1, len(events) + 1) if lines is None or len(set(lines)) < len(lines) else lines
    own = [event.get("index") for event in events if event.get("process") != NEMESIS]
    indexed = all(isinstance(index, int) for index in own) and len(set(own)) == len(own)
    return [_transaction(one, workload, events, numbers, indexed) for one in asked]


def dump(transactions: Sequence[Transaction]) -> str:
    """Transactions as JSON lines: the inverse of `parse`, but for their names and what failed ones read."""
    events: list[tuple[float, dict[str, Any]]] = []
    for one in transactions:
        value = [[op.f, op.key, op.value] for op in one.ops]
        asked = [[f, key, None if f == "r" else given] for f, key, given in value]
        event = {"process": one.process, "type": "invoke", "f": "txn", "value": asked}
        events.append((one.called, event))
        if one.returned != NEVER:
            events.append(
                (one.returned, {**event, "type": one.status, "value": value if one.status == "ok" else asked})
            )
    events.sort(key=lambda each: each[0])
    return "".join(json.dumps(event) + "\n" for _, event in events)


def _check(event: Mapping[str, Any], where: str, workload: str) -> None:
    process, type_, f = (event.get(name) for name in ("process", "type", "f"))
    if isinstance(process, bool) or not isinstance(process, int | str):
        raise BadRequest(f"{where}: the process must be a number or a name, not {shortened(process)}")
    if type_ not in TYPES:
        raise BadRequest(f"{where}: the type must be one of {', '.join(TYPES)}, not {shortened(type_)}")
    if f != "txn" and not (f is None and type_ != "invoke"):
        raise BadRequest(f"{where}: f must be txn, not {shortened(f)}. A history of transactions has no other events")
    value = event.get("value")
    if value is None and type_ in ("fail", "info"):
        return
    if not isinstance(value, list):
        raise BadRequest(f"{where}: the value of a transaction is a list of operations, not {shortened(value)}")
    for op in value:
        _check_op(op, where, type_, workload)


def _check_op(op: Any, where: str, type_: str, workload: str) -> None:
    functions = _FUNCTIONS[workload]
    if not isinstance(op, list) or len(op) != 3 or op[0] not in functions:
        examples = f'["{functions[0]}", key, value] or ["r", key, null]'
        raise BadRequest(f"{where}: an operation of {workload} is {examples}, not {shortened(op)}")
    f, key, value = op
    if not _plain(key):
        raise BadRequest(f"{where}: a key is text or a whole number, not {shortened(key)}")
    if f != "r":
        if not _plain(value):
            raise BadRequest(f"{where}: a value is text or a whole number, not {shortened(value)}")
    elif type_ == "ok" and value is not None:
        if workload == "list-append" and not (isinstance(value, list) and all(map(_plain, value))):
            raise BadRequest(f"{where}: a read returns a list of texts and whole numbers, not {shortened(value)}")
        if workload == "rw-register" and not _plain(value):
            raise BadRequest(f"{where}: a read returns text, a whole number or null, not {shortened(value)}")


def _plain(value: Any) -> bool:
    return type(value) is int or type(value) is str


def _match(begun: Mapping[str, Any], ended: Mapping[str, Any], where: str, line: int) -> None:
    if ended["type"] != "ok":
        return
    asked, done = begun["value"], ended["value"]
    same = len(asked) == len(done) and all(
        one[:2] == other[:2] and (one[0] == "r" or one[2] == other[2]) for one, other in zip(asked, done, strict=True)
    )
    if not same:
        raise BadRequest(
            f"{where}: the operations are not those of the transaction that {called(ended['process'])} began on line "
            f"{line}"
        )


def _transaction(
    one: Asked, workload: str, events: Sequence[Mapping[str, Any]], numbers: Sequence[int], indexed: bool
) -> Transaction:
    status: Status = "info" if one.ended is None else one.ended["type"]
    ops = one.ended["value"] if one.ended is not None and status == "ok" else one.begun["value"]
    last = one.at if one.ends_at is None else one.ends_at
    index = events[last]["index"] if indexed else numbers[last]
    done = tuple(Op(f, key, _read(value, status, workload) if f == "r" else value) for f, key, value in ops)
    returned = NEVER if status == "info" else one.returned
    return Transaction(index, one.begun["process"], status, done, one.called, returned)


def _read(value: Any, status: str, workload: str) -> Any:
    if status != "ok":
        return None
    if workload == "list-append":
        return () if value is None else tuple(value)
    return value
