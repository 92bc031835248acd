"""Histories of transactions in a chapter: written down, or those of a run, and what the isolation checker says of them.

two = history("A: r x [1], append y 2", "B: append x 1, r y []")
verdict(two, "snapshot-isolation")
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from courselib.cluster import Run
from courselib.table import Table, table
from grader.nodes.histories.transactions import Op, Transaction, check, find

_OP = re.compile(r"(r|append|w) (\w+) (\[[\d, ]*\]|-?\d+|-)")
DEFINITE = {1, 10, 11, 12, 14, 20, 21, 22, 30}  # Maelstrom's protocol: the request had no effect
MODELS = ("read-committed", "snapshot-isolation", "serializable", "strict-serializable")


def history(*lines: str) -> list[Transaction]:
    """ "WHO: op, op" one line a transaction that took effect, in the order of real time; "WHO failed: op" one that did
    not. Ops: `append KEY 3`, `r KEY [1, 2]`, and of registers `w KEY 3`, `r KEY 3`, `r KEY -`. Raises ValueError."""
    found = []
    for index, line in enumerate(lines):
        who, _, ops = line.partition(":")
        name, _, failed = who.partition(" ")
        parts = _OP.findall(ops)
        if not parts:
            raise ValueError(f'{line!r} is not "WHO: op, op", as "A: r x [1], append y 2"')
        made = tuple(Op(f, key, _value(text)) for f, key, text in parts)
        found.append(Transaction(index, name, "fail" if failed else "ok", made, 2 * index, 2 * index + 1))
    return found


def _value(text: str) -> Any:
    if text == "-":
        return None
    return tuple(int(each) for each in re.findall(r"-?\d+", text)) if text[0] == "[" else int(text)


def together(transactions: Sequence[Transaction]) -> list[Transaction]:
    """The same, all at the same time: nothing was over before another one began."""
    size = len(transactions)
    return [
        Transaction(one.index, one.process, one.status, one.ops, at, size + at) for at, one in enumerate(transactions)
    ]


def of_dicts(told: Sequence[Mapping[str, Any]]) -> list[Transaction]:
    """Completions {"index", "process", "type", "ops"}, as in the exercise find_anomaly: without times."""
    return together([
        Transaction(one["index"], one["process"], one["type"], tuple(_op(one["type"], *op) for op in one["ops"]))
        for one in told
    ])  # fmt: skip


def _op(status: str, f: Any, key: str, value: Any) -> Op:
    if f != "r":
        return Op(f, key, value)
    return Op(f, key, tuple(value or ()) if status == "ok" else None)


def of_run(run: Run) -> list[Transaction]:
    """The txn requests of a run, with their times."""
    found = []
    asked = sorted((each for client in run.played.clients.values() for each in client.done), key=lambda a: a.sent)
    for index, one in enumerate(asked):
        answer = one.answer or {}
        status = "ok" if answer.get("type") == "txn_ok" else "fail" if answer.get("code") in DEFINITE else "info"
        ops = answer["txn"] if status == "ok" else one.ask.body["txn"]
        made = tuple(_op(status, *op) for op in ops)
        ended = float("inf") if one.answered is None or status == "info" else round(one.answered * 1e6)
        found.append(Transaction(index, one.client, status, made, round(one.sent * 1e6), ended))  # type: ignore[arg-type]
    return found


def verdict(transactions: Sequence[Transaction], level: str = "serializable", workload: Any = "list-append") -> str:
    """ "valid", or the kinds of anomalies that the level forbids."""
    judged = check(transactions, level, workload)
    return "valid" if judged.valid else ", ".join(one.kind for one in judged.anomalies)


def verdicts(
    histories: Mapping[str, Sequence[Transaction]], levels: Sequence[str] = MODELS, workload: Any = "list-append"
) -> Table:
    """Each history at each level."""
    rows = [[name, *(verdict(some, level, workload) for level in levels)] for name, some in histories.items()]
    return table(["history", *(level.replace("-", " ") for level in levels)], rows)


def witnesses(transactions: Sequence[Transaction], workload: Any = "list-append") -> Table:
    """Every anomaly, and the transactions and edges that show it."""
    rows = []
    for one in find(transactions, workload):
        edges = "; ".join(
            f"{_name(transactions, e.source)} {e.kind} {_name(transactions, e.target)}" for e in one.edges
        )
        rows.append([one.kind, edges or ", ".join(_name(transactions, index) for index in one.indices)])
    return table(["anomaly", "shown by"], rows or [["none", "-"]])


def _name(transactions: Sequence[Transaction], index: int) -> str:
    one = next(each for each in transactions if each.index == index)
    return f"{one.process}" if len({each.process for each in transactions}) == len(transactions) else f"T{index}"
