"""Transactions, edges and anomalies in sentences, and the picture of a witness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grader import says
from grader.exercises.find_anomaly.cycles import RW, WR, WW, chosen
from grader.exercises.find_anomaly.readings import Read, Reading, Transaction, Values, Why
from grader.trace.dependencies import ENDS, Arrow, Card, Dependencies

SHOWN = 12  # transactions of a history that is printed as a whole
MOST_VALUES = 6
CYCLES = ("G0", "G1c", "G-single", "G2-item")


def listing(values: Values | None) -> str:
    """What a read returned: "null", "[]", "[1, 2]", "[..., 7, 8]"."""
    if values is None:
        return "null"
    if len(values) > MOST_VALUES:
        return f"[..., {', '.join(map(str, values[-MOST_VALUES:]))}]"
    return f"[{', '.join(map(str, values))}]"


def operation(op: Sequence[Any]) -> str:
    f, key, value = op
    return f"append {key} {value}" if f == "append" else f"r {key} {listing(None if value is None else tuple(value))}"


def transaction(txn: Transaction) -> str:
    """One of them: "T3 (ok): append x 4, r y [1, 2]"."""
    return f"T{txn['index']} ({txn['type']}): {', '.join(operation(op) for op in txn['ops']) or 'nothing'}"


def history(reading: Reading) -> str:
    """All transactions of a small history; "" of a large one."""
    if len(reading.transactions) > SHOWN:
        return ""
    return f" The history: {'; '.join(transaction(txn) for txn in reading.transactions)}."


def path(cycle: Iterable[int]) -> str:
    """ "T3 → T7 → T3", the middle of a long one left out."""
    names = [f"T{index}" for index in cycle]
    names.append(names[0])
    return " → ".join(names if len(names) <= 14 else [*names[:6], "...", *names[-6:]])


def edge(source: int, kind: str, target: int, why: Why) -> str:
    """Why there is an edge."""
    key, read = why.key, why.read
    if kind == WW:
        return f"T{source} appended {why.before} to {key}, and T{target} appended {why.after}, the next version"
    assert read is not None
    removed = " (without values of failed transactions)" if read.raw != read.values else ""
    if kind == WR:
        return f"T{target} read {key} = {listing(read.values)}{removed}, and T{source} appended {why.before}"
    following = "the first version" if why.before is None else "the next version"
    return f"T{source} read {key} = {listing(read.values)}{removed}, and T{target} appended {why.after}, {following}"


def edges(reading: Reading, cycle: Sequence[int], kinds: Sequence[str]) -> list[tuple[int, str, int, Why]]:
    """The steps of a cycle: source, kind, target, and why."""
    steps = reading.kinds(cycle)
    targets = [*cycle[1:], *cycle[:1]]
    return [(a, kind, b, step[kind]) for a, b, step, kind in zip(cycle, targets, steps, kinds, strict=True)]


def told(reading: Reading, name: str, cycle: Sequence[int]) -> str:
    """A cycle in sentences: which, and why each edge is one; the middle of a long one is left out."""
    kinds = chosen(name, reading.kinds(cycle))
    assert kinds is not None
    found = [f"{edge(*step)} ({step[1]})" for step in edges(reading, cycle, kinds)]
    if len(found) > 5:
        at = kinds.index(RW) if RW in kinds else 0
        found = [*(found[at:] + found[:at])[:3], f"{len(found) - 3} more edges close the cycle"]
    return f"{path(cycle)}: {'. '.join(found)}."


def dirty(reading: Reading, name: str) -> tuple[list[int], str]:
    """A witness of G1a or G1b, and why it is one."""
    if name == "G1a":
        writer, reader, read, value = next(reading.aborted_reads())
        return [writer, reader], aborted(writer, read, value)
    writer, reader, read, value = next(reading.intermediate_reads())
    return [writer, reader], intermediate(reading, writer, read, value)


def aborted(writer: int, read: Read, value: int) -> str:
    return f"T{read.reader} read {read.key} = {listing(read.raw)}, and the failed T{writer} appended {value}"


def intermediate(reading: Reading, writer: int, read: Read, value: int) -> str:
    last = reading.last_append(writer, read.key)
    return (
        f"T{read.reader} read {read.key} = {listing(read.raw)}. Its last value {value} is of T{writer}, which appended "
        f"{last} to {read.key} later"
    )


# ---- pictures


def cycle_picture(reading: Reading, cycle: Sequence[int], kinds: Sequence[str]) -> Dependencies:
    """A cycle: `kinds` has "" for a step without an edge."""
    keys: dict[int, set[Any]] = {index: set() for index in cycle}
    arrows = []
    for a, b, step, kind in zip(cycle, [*cycle[1:], *cycle[:1]], reading.kinds(cycle), kinds, strict=True):
        words = edge(a, kind, b, step[kind]) if kind else "the history has no edge here"
        arrows.append(Arrow(kind, words if kind else f"T{a} → T{b}: {words}"))
        for index in (a, b) if kind else ():
            keys[index].add(step[kind].key)
    return Dependencies([_card(reading.by_index[index], keys[index]) for index in cycle], arrows)


def pair_picture(reading: Reading, writer: int, reader: int, key: Any, words: str) -> Dependencies:
    """A writer above a reader of what it appended."""
    return Dependencies([_card(reading.by_index[index], {key}) for index in (writer, reader)], [Arrow(WR, words)])


def _card(txn: Transaction, keys: set[Any]) -> Card:
    operations = [(operation(op), op[1] in keys) for op in txn["ops"]]
    return Card(f"T{txn['index']}", ENDS[txn["type"]], operations, transaction(txn), txn["type"] == "fail")


def kinds_of(step: Mapping[str, Why]) -> str:
    """ "ww", "wr or rw"."""
    return says.listed(sorted(step), "or")


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."
