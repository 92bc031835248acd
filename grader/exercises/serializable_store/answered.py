"""Transactions as their clients know them: what was asked and answered, in words; and what is wrong with one or several."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grader.nodes.clients import DEFINITE
from grader.says import counted
from grader.verdict import Kind

Status = Literal["ok", "fail", "info"]
Op = tuple[Literal["append", "r"], Any, Any]
MOST_TOLD = 6  # operations of one transaction


@dataclass(frozen=True)
class Txn:
    """A transaction as its client knows it. `ops` are those of the answer where it is ok, with what was read. Times are
    seconds, or places in a history without times (`timed` is False); `returned` is infinite unless it is ok or failed."""

    index: int
    client: str
    node: str
    ops: tuple[Op, ...]
    status: Status
    called: float
    returned: float = math.inf
    answer: dict[str, Any] | None = None
    timed: bool = True

    @property
    def name(self) -> str:
        return f"T{self.index + 1}"

    @property
    def label(self) -> str:
        """ "T2 (bob to n2 at 1.030 s: r x, append y 5)" """
        when = f" at {self.called:.3f} s" if self.timed else ""
        return f"{self.name} ({self.client} to {self.node}{when}: {told(self.ops)})"

    def appends(self) -> list[tuple[str, Any]]:
        """What it appends, as (key, value), in order. Keys are JSON texts: 7 is not "7"."""
        return [(json.dumps(key), value) for f, key, value in self.ops if f == "append"]

    def reads(self) -> Iterator[tuple[str, list[Any], list[Any]]]:
        """Of each read of an answered transaction: the key, what it showed, and the own appends to it before."""
        own: dict[str, list[Any]] = {}
        for f, key, value in self.ops:
            if f == "append":
                own.setdefault(json.dumps(key), []).append(value)
            elif self.status == "ok":
                yield json.dumps(key), list(value or []), list(own.get(json.dumps(key), []))

    def seen(self, key: str) -> list[Any] | None:
        """What the first read of this key showed of others; None where it was not read."""
        for other, shown, own in self.reads():
            if other == key:
                return shown[: len(shown) - len(own)]
        return None


def told(ops: Iterable[Op]) -> str:
    """Operations as they are written in a sentence; of very many only the first."""
    words = [f"append {key} {value}" if f == "append" else f"r {key}" for f, key, value in ops]
    if len(words) > MOST_TOLD:
        words[MOST_TOLD - 1 :] = [f"and {len(words) - MOST_TOLD + 1} more"]
    return ", ".join(words) or "no operation"


@dataclass(frozen=True)
class Problem:
    """What is wrong: the transactions that show it, in the order in which they matter."""

    kind: Kind
    text: str
    shown: tuple[Txn, ...] = ()
    expected: str = ""
    got: str = ""


def ended(body: dict[str, Any], answer: dict[str, Any] | None) -> tuple[Status, tuple[Op, ...]]:
    """How a request ended, and its operations as far as they are known. The answer's shape must be right (`shape`)."""
    asked = tuple((f, key, value) for f, key, value in body["txn"])
    if answer is None:
        return "info", asked
    if answer.get("type") == "txn_ok":
        return "ok", tuple((f, key, value) for f, key, value in answer["txn"])
    return ("fail" if answer.get("code") in DEFINITE else "info"), asked


def shape(body: dict[str, Any], answer: dict[str, Any]) -> str:
    """What is wrong with how an answer looks, as half a sentence; "" where nothing is."""
    if answer.get("type") == "error":
        code = answer.get("code")
        if isinstance(code, bool) or not isinstance(code, int):
            return "has no integer `code`. Answer an error with a code: 30 for a conflict, 11 for an owner out of reach"
        return ""
    if answer.get("type") != "txn_ok":
        return "is neither txn_ok nor error. Answer every txn with one of them"
    ops, asked = answer.get("txn"), body["txn"]
    if not isinstance(ops, list) or len(ops) != len(asked):
        count = counted(len(ops), "operation") if isinstance(ops, list) else "no list `txn`"
        return f"has {count}, and the request has {len(asked)}. Return the same operations in the same order"
    for place, (op, want) in enumerate(zip(ops, asked, strict=True), 1):
        if not isinstance(op, list) or len(op) != 3 or not _same(op[:2], want[:2]):
            return f"has {_short(op)} as operation {place}, and the request has {_short(want)}. Keep the operations and their order"
        if want[0] == "append" and not _same(op[2], want[2]):
            return f"has {_short(op)} as operation {place}, and the request has {_short(want)}. Return appends as they were asked for"
        whole = isinstance(op[2], list) and all(type(value) is int for value in op[2])
        if want[0] == "r" and op[2] is not None and not whole:
            return (
                f"has {_short(op)} as operation {place}. Fill in a read with the list of all values appended to the key"
            )
    return ""


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _short(value: Any) -> str:
    return json.dumps(value)[:80]


def listing(values: Sequence[Any], most: int = 8) -> str:
    shown = [str(value) for value in values]
    return f"[{', '.join(shown if len(shown) <= most else ['...', *shown[-most:]])}]"


def key_name(key: str) -> str:
    return f"key {json.loads(key)}"
