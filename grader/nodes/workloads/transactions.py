"""txn-list-append and txn-rw-register: transactions, whose history must be one that an isolation level allows.

Requests are txn {txn: [["r", k, null], ["append", k, v], ...]} ("w" for registers), answers the same operations with
their reads filled in (Maelstrom, doc/workloads.md).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from grader.nodes.histories import transactions as history
from grader.nodes.histories.transactions import Transaction
from grader.nodes.protocol import Body, Malformed, is_integer, quoted
from grader.nodes.workloads.mix import Mix, transactions
from grader.nodes.workloads.workload import Call, Event, Judgement, Op, Workload, calls, need
from grader.says import counted
from grader.trace.story import Fault

LIST_APPEND, RW_REGISTER = "txn-list-append", "txn-rw-register"
WRITES = {LIST_APPEND: "append", RW_REGISTER: "w"}  # what each calls a write
ISOLATION = "strict-serializable"
MIX = Mix()


def workload(name: str, isolation: str = ISOLATION, mix: Mix = MIX) -> Workload:
    """One of the two, judged at an isolation level of `grader.nodes.histories.transactions`."""
    write = WRITES[name]

    def operations(draw: random.Random) -> Iterator[Op]:
        return (Op("txn", each) for each in transactions(draw, write, mix))

    def judge(events: Sequence[Event], nodes: Sequence[str]) -> Judgement:
        return _judge(found(calls(events), name), name, isolation)

    def picture(events: Sequence[Event], faults: Sequence[Fault]) -> str:
        return ""

    return Workload(
        name=name,
        about=f"transactions over {'lists' if name == LIST_APPEND else 'registers'}, {isolation}",
        operations=operations,
        request=lambda op: {"type": "txn", "txn": op.value},
        answer=lambda op, body: _answer(name, op, body),
        judge=judge,
        picture=picture,
    )


def _answer(name: str, op: Op, body: Body) -> list[list[Any]]:
    """The operations with their reads filled in. Raises Malformed where they are not those that were asked for."""
    found: list[Any] = need(body, "txn", list, "the list of the transaction's operations")
    asked: list[list[Any]] = op.value
    if len(found) != len(asked):
        raise Malformed(
            f"answered a transaction of {len(asked)} operations with {len(found)}: {_shown(found)}. It was asked for "
            f"{_shown(asked)}. Answer with the same operations in the same order, and fill in what the reads saw"
        )
    for one, other in zip(asked, found, strict=True):
        f, key, value = one
        same = isinstance(other, list) and len(other) == 3 and json.dumps(other[:2]) == json.dumps([f, key])
        if not same or (f != "r" and json.dumps(other[2]) != json.dumps(value)):
            raise Malformed(
                f"answered the operation {_shown(one)} with {_shown(other)}. Answer with the same operations in the "
                "same order, and fill in only what the reads saw"
            )
        if f == "r":
            _check(name, other)
    return found


def _check(name: str, read: list[Any]) -> None:
    """Raise Malformed for a read of what no client can have written."""
    value = read[2]
    if name == RW_REGISTER:
        if value is not None and not is_integer(value):
            raise Malformed(f"answered with the read {_shown(read)}. A register holds one of the integers that "
                            "clients wrote, or null if it was never written")  # fmt: skip
    elif value is not None and not (isinstance(value, list) and all(map(is_integer, value))):
        raise Malformed(f"answered with the read {_shown(read)}. A list is an array of the integers that clients "
                        "appended, or null if there are none")  # fmt: skip


def _shown(value: Any) -> str:
    return quoted(json.dumps(value))


def found(every: Sequence[Call], name: str) -> list[Transaction]:
    """The transactions of a history, as the isolation checker takes them. `index` counts requests from 0."""
    return [
        Transaction(number, call.process, _status(call), _operations(call, name), call.called, call.returned)
        for number, call in enumerate(every)
        if call.f == "txn"
    ]


def _status(call: Call) -> Literal["ok", "fail", "info"]:
    return "ok" if call.ok else "fail" if call.type == "fail" else "info"


def _operations(call: Call, name: str) -> tuple[history.Op, ...]:
    return tuple(
        history.Op(f, key, tuple(value or ()) if f == "r" and name == LIST_APPEND and call.ok else value)
        for f, key, value in (call.value if call.ok else call.asked)
    )


def _judge(transactions: Sequence[Transaction], name: str, isolation: str) -> Judgement:
    """What the level forbids and the history shows."""
    judged = history.check(transactions, isolation, name.removeprefix("txn-"))
    committed = sum(one.status == "ok" for one in transactions)
    figures = {
        "isolation": isolation,
        "committed": committed,
        "anomalies": {one.kind: list(one.indices) for one in judged.anomalies},
    }
    if not judged.valid:
        return Judgement(False, str(judged.anomalies[0]), figures)
    if not committed:
        return Judgement("unknown", "not one transaction was answered with txn_ok", figures)
    return Judgement(True, f"{counted(committed, 'transaction')} took effect as {isolation} asks", figures)
