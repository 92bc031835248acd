"""Whether what clients were told of their transactions is strict-serializable, and all of each or nothing; in words.

Histories of lists: every value is appended to its key by one transaction only, so that what was read shows the order of
all versions (Kingsbury and Alvaro 2020, "Elle", section 4). `grader.nodes.histories.transactions` finds the cycles.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.exercises.serializable_store.answered import Problem, Txn, key_name, listing
from grader.nodes.histories import transactions as checker
from grader.says import listed
from grader.verdict import Kind

PATIENCE = 5.0  # seconds for which a client waits


# ---- one after another


def values(txns: Sequence[Txn]) -> Problem | None:
    """What is wrong with single reads: values of nobody, of who failed, twice, or without the own appends."""
    writers = {(key, value): txn for txn in txns for key, value in txn.appends()}
    for txn in txns:
        for key, shown, own in txn.reads():
            for place, value in enumerate(shown):
                writer = writers.get((key, value))
                if writer is None or (writer is not txn and writer.called > txn.returned):
                    who = "no transaction" if writer is None else f"only {writer.label}, which was sent later,"
                    return Problem(
                        "wrong_result",
                        f"{txn.label} read {listing(shown)} of {key_name(key)}, but {who} appends {value} to it. A read must return "
                        "the values that transactions appended to that key, and no others.", (txn,),
                    )  # fmt: skip
                if value in shown[:place]:
                    return Problem(
                        "lost_or_duplicated",
                        f"{txn.label} read {listing(shown)} of {key_name(key)}: {value} is in it twice. {writer.label} appended "
                        f"{value} once. A transaction must take effect once, even if a message about it arrives again or a "
                        "node does a step again after a crash. Remember which transactions have been applied.",
                        (writer, txn), "each value once", listing(shown),
                    )  # fmt: skip
                if writer.status == "fail":
                    return Problem(
                        "not_atomic",
                        f"{writer.label} was answered with error {(writer.answer or {}).get('code')}, which promises that "
                        f"nothing happened and never will. But {txn.label} read {listing(shown)} of {key_name(key)}, and {value} is "
                        f"what {writer.name} appended. Answer a definite error only after the transaction can no longer take effect "
                        "at any owner; otherwise answer error 0 or 13, or nothing.",
                        (writer, txn), f"a list without {value}", listing(shown),
                    )  # fmt: skip
            if shown[len(shown) - len(own) :] != own or (not own and any(writers[key, v] is txn for v in shown)):
                return Problem(
                    "wrong_result",
                    f"{txn.label} read {listing(shown)} of {key_name(key)}. Before this read it had appended {listing(own)} to the key "
                    "itself. A read must end with the transaction's own earlier appends, and must not show its later ones.",
                    (txn,), f"a list that ends with {listing(own)}", listing(shown),
                )  # fmt: skip
    return None


def orders(txns: Sequence[Txn]) -> Problem | None:
    """Two reads of one key that do not fit: neither list begins with the other."""
    longest: dict[str, tuple[list[Any], Txn]] = {}
    for txn in txns:
        for key, shown, own in txn.reads():
            before = shown if txn.status == "ok" else shown[: len(shown) - len(own)]
            other, reader = longest.get(key, ([], txn))
            if before[: len(other)] != other[: len(before)]:
                why = "A key has one list, and a new value goes to its end, so one of two reads begins with the other."
                if _apart(reader, txn, key, other, before):
                    why = (
                        "Both transactions were under way at the same time, and neither saw what the other one appended. A transaction that "
                        "appends to a key must have it alone until its outcome, also if it reads the key before or after that."
                    )
                return Problem(
                    "not_linearizable",
                    f"{reader.label} read {listing(other)} of {key_name(key)}, and {txn.label} read {listing(before)}. Neither list begins "
                    f"with the other. {why}", (reader, txn), "one list begins with the other",
                    f"{listing(other)} and {listing(before)}",
                )  # fmt: skip
            if len(before) > len(other) or key not in longest:
                longest[key] = before, txn
    return None


def _apart(one: Txn, other: Txn, key: str, shown: Sequence[Any], also: Sequence[Any]) -> bool:
    """Whether two transactions overlapped, and both appended to a key and read it without what the other appended."""
    mine, theirs = ([value for of, value in txn.appends() if of == key] for txn in (one, other))
    overlap = one.called < other.returned and other.called < one.returned
    return overlap and bool(mine and theirs) and not {*mine} & {*also} and not {*theirs} & {*shown}


def last(txns: Sequence[Txn], crashed: bool) -> Problem | None:
    """Of the last read of everything: all that was acknowledged is there, and of all others everything or nothing."""
    keys = {key for txn in txns for key, _ in txn.appends()}
    final = next(
        (t for t in reversed(txns) if t.status == "ok" and keys and keys <= {k for k, _, _ in t.reads()}), None
    )
    if final is None:
        return None
    shown = {key: final.seen(key) or [] for key in keys}
    for txn in txns:
        mine = [(key, value) for key, value in dict.fromkeys(txn.appends()) if txn is not final]
        lacks = [(key, value) for key, value in mine if value not in shown[key]]
        if not lacks:
            continue
        gone = listed(f"{value} of {key_name(key)}" for key, value in lacks)
        has = [(key, value) for key, value in mine if (key, value) not in lacks]
        if has:
            over = txn.returned < final.called or (txn.timed and final.called - txn.called > PATIENCE)
            if not over and (found := cycle(txns)) is not None:
                return found
            return _half(txn, final, listed(f"{value} of {key_name(key)}" for key, value in has), gone, over)
        if txn.status == "ok" and txn.returned < final.called:
            kind: Kind = "not_durable" if crashed else "lost_or_duplicated"
            return Problem(
                kind,
                f"{txn.label} was answered txn_ok, but its {gone} {'is' if len(lacks) == 1 else 'are'} gone: {final.label} read "
                f"{listed(f'{listing(shown[key])} of {key_name(key)}' for key in dict.fromkeys(key for key, _ in lacks))}. What is "
                "acknowledged must stay. Answer only when what is on disk, at you and at the owners, is enough to finish "
                "the transaction.", (txn, final), f"a list with {gone}", "a list without it",
            )  # fmt: skip
    return None


def _half(txn: Txn, final: Txn, there: str, gone: str, over: bool) -> Problem:
    """A transaction of which the last read showed a part."""
    how = "was answered txn_ok" if txn.status == "ok" else "was not answered txn_ok"
    advice = "All appends of a transaction must be there, or none. Every owner of its keys has to learn the same outcome, however long that takes."
    if not over:
        advice = (
            "All appends of a transaction must be seen, or none. Either the owners do not learn the same outcome, or the read "
            "is not of one moment."
        )
    return Problem(
        "not_atomic", f"{txn.label} {how}, and {final.label} found {there}, but not {gone}. {advice}", (txn, final),
        "all or none", f"{there} only",
    )  # fmt: skip


# ---- one order of all


@dataclass
class _Places:
    """Moments as places in one order. What happens at the same time is taken as if it overlapped."""

    at: dict[tuple[float, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, txns: Sequence[Txn]) -> _Places:
        moments = {(txn.called, 0) for txn in txns} | {(txn.returned, 1) for txn in txns if txn.returned < math.inf}
        return cls({moment: place for place, moment in enumerate(sorted(moments))})


def cycle(txns: Sequence[Txn]) -> Problem | None:
    """What no order of the transactions explains, as a cycle of what must come before what."""
    places = _Places.of(txns).at
    history = [
        checker.Transaction(
            txn.index, txn.client, txn.status,
            tuple(checker.Op(f, key, _read(txn, value) if f == "r" else value) for f, key, value in txn.ops),
            places[txn.called, 0], places[txn.returned, 1] if txn.returned < math.inf else math.inf,
        )
        for txn in txns
    ]  # fmt: skip
    judged = checker.check(history, "strict-serializable")
    if judged.valid:
        return None
    by_index = {txn.index: txn for txn in txns}
    anomaly = min(judged.anomalies, key=lambda one: len(one.indices))
    return told_cycle(anomaly, by_index)


def _read(txn: Txn, value: Any) -> tuple[Any, ...] | None:
    return tuple(value or ()) if txn.status == "ok" else None


def told_cycle(anomaly: checker.Anomaly, txns: dict[int, Txn]) -> Problem:
    """An anomaly in sentences."""
    involved = tuple(txns[index] for index in anomaly.indices)
    labels = listed(txn.label for txn in involved)
    if anomaly.kind == "lost-update":
        first, second = involved
        seen, one, other = anomaly.elements
        read = "an empty list" if seen is None else f"a list that ends with {seen}"
        return Problem(
            "not_linearizable",
            f"{first.label} and {second.label} both read {read} of {key_name(json.dumps(anomaly.key))}, and then appended to it, "
            f"{one} and {other}. In any order one of them must read what the other appended. Let an owner hold a lock from the "
            "read to the outcome, or refuse a transaction whose reads are old.", involved,
        )  # fmt: skip
    if not anomaly.edges:
        reader, writer = involved[0], involved[-1]
        return Problem(
            "not_atomic",
            f"{reader.label} read a list of {key_name(json.dumps(anomaly.key))} that ends with {anomaly.elements[0]}, which "
            f"{writer.label} appended and which is not its last append to that key. A transaction must be seen as a whole. "
            "Apply all of its appends to a key in one step.", involved,
        )  # fmt: skip
    why = ". ".join(_edge(edge, txns) for edge in anomaly.edges)
    kinds = {edge.kind for edge in anomaly.edges}
    if kinds & {"real-time", "session"} and len(involved) > 2:
        advice = (
            "A transaction that is sent after another one's txn_ok comes after it for every client, also for a third one that "
            "reads of both. Let owners hold locks, or check reads, so that all keys of a transaction are taken at one moment."
        )
    elif kinds & {"real-time", "session"}:
        advice = (
            "A transaction that is sent after another one's txn_ok must see all that the other one did. Until an owner has "
            "applied a committed transaction, let it answer nobody else about these keys."
        )
    elif "rw" in kinds:
        advice = (
            "All keys of a transaction, also those that it only reads, must be read and written as of one moment. Lock all of "
            "them until the outcome, or check before the commit that nothing read has changed."
        )
    else:
        advice = "All owners must apply two transactions in the same order. Lock all keys of a transaction before any is written."
    return Problem(
        "not_linearizable",
        f"What clients were told of {labels} goes in a circle. {why}. One order of all transactions must explain every answer, "
        f"and here none does. {advice}", involved, "one order of all transactions", f"a circle ({anomaly.kind})",
    )  # fmt: skip


def _edge(edge: checker.Edge, txns: dict[int, Txn]) -> str:
    """Why one transaction came before another."""
    one, other, key = txns[edge.source], txns[edge.target], key_name(json.dumps(edge.key))
    match edge.kind:
        case "ww":
            return f"{one.name} came before {other.name}: in {key}, its {edge.elements[0]} stands before {edge.elements[1]} of {other.name}"
        case "wr":
            return f"{one.name} came before {other.name}: {other.name} read {edge.elements[0]} of {key}, which {one.name} appended"
        case "rw":
            return f"{one.name} came before {other.name}: {one.name} read {key} without {edge.elements[1]}, which {other.name} appended"
    if one.timed:
        return f"{one.name} came before {other.name}: it was answered at {one.returned:.3f} s, and {other.name} was sent at {other.called:.3f} s"
    return f"{one.name} came before {other.name}: it was answered before {other.name} was sent"
