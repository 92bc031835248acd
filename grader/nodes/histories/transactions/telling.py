"""Anomalies in words: what each kind is called, and what a witness shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grader import says
from grader.nodes.histories.history import called
from grader.nodes.histories.transactions.levels import PROCESS, REALTIME
from grader.nodes.histories.transactions.parts import Anomaly, Edge
from grader.nodes.histories.transactions.transaction import Op, Transaction
from grader.nodes.histories.words import name, shown

NAMES = {
    "G0": "write cycle",
    "G1a": "aborted read",
    "G1b": "intermediate read",
    "G1c": "circular information flow",
    "G-single": "a cycle with one anti-dependency",
    "G-nonadjacent": "a cycle with nonadjacent anti-dependencies",
    "G2-item": "a cycle with two or more anti-dependencies",
    "lost-update": "two updates of one version",
    "internal": "a transaction disagrees with its own writes",
    "torn-append": "the appends of one transaction are out of order or incomplete",
    "unwritten": "a value that nobody wrote",
    "duplicate-elements": "a value that is there twice",
    "incompatible-order": "two reads that contradict each other",
    "cyclic-versions": "versions that cannot be put in order",
}
EXPECTED = {
    "G0": "All writes of one transaction must come before those of another one, on every key.",
    "G1c": "If one transaction sees another one's writes, it must not also have come before it.",
    "G-single": "If a transaction sees a write, it must also see everything that came before that write.",
    "G-nonadjacent": "What transactions see must be states of the store in one order.",
    "G2-item": "At least two of them did not see what another one wrote. One of the two must see it, or abort.",
    "lost-update": "One of them must abort, or read again.",
    "G1a": "Show the writes of a transaction to others only once it is sure to commit.",
    "G1b": "Show the writes of a transaction to others only when it commits, all of them together.",
}
_ORDERS = {PROCESS: "and the order of one process", REALTIME: "and real time"}
_EXPECTED_IN_ORDER = {
    PROCESS: "The transactions of one process must come in the order in which it ran them.",
    REALTIME: "A transaction that began after another one had ended must come after it.",
}
_LISTED = 12  # elements of a list that a sentence shows
_MOST = 8  # steps of a cycle that a sentence tells

ByIndex = Mapping[int, Transaction]


def title(kind: str) -> str:
    """ "G-single-realtime (a cycle with one anti-dependency and real time)" """
    more = next((f" {words}" for suffix, words in _ORDERS.items() if kind.endswith(suffix)), "")
    return f"{kind} ({NAMES[base(kind)]}{more})"


def base(kind: str) -> str:
    """A kind without its suffix."""
    return kind.removesuffix(PROCESS).removesuffix(REALTIME)


def sentence(anomaly: Anomaly, transactions: ByIndex) -> str:
    """What a witness shows, and what was expected, in sentences."""
    told = _cycle(anomaly.edges, transactions) if anomaly.edges else _FACTS[anomaly.kind](anomaly, transactions)
    in_order = (words for suffix, words in _EXPECTED_IN_ORDER.items() if anomaly.kind.endswith(suffix))
    return f"{told} {next(in_order, EXPECTED.get(anomaly.kind, ''))}".strip()


def step(edge: Edge, transactions: ByIndex) -> str:
    """What an edge is seen from, without its conclusion: "T3 did not see T7's append of 6 to x"."""
    source, target, key = f"T{edge.source}", f"T{edge.target}", name(edge.key)
    if edge.kind == "real-time":
        return f"{source} had ended when {target} began"
    if edge.kind == "session":
        return f"{called(transactions[edge.source].process)} ran {source} before {target}"
    values = [shown(value) for value in edge.elements]
    lists = any(op.f == "append" for one in (edge.source, edge.target) for op in transactions[one].ops)
    if edge.kind == "wr":
        return f"{target} read {values[0]} from {key}, which {source} {'appended' if lists else 'wrote'}"
    if edge.kind == "rw":
        if lists:
            return f"{source} did not see {target}'s append of {values[1]} to {key}"
        if edge.elements[0] is None:
            return f"{source} read nothing from {key}, and not yet {target}'s {values[1]}"
        return f"{source} read {values[0]} from {key}, and not yet {target}'s {values[1]}"
    if lists:
        return f"{source} appended {values[0]} to {key} before {target} appended {values[1]}"
    return f"{source} wrote {values[0]} to {key} before {target} wrote {values[1]}"


def _cycle(edges: Sequence[Edge], transactions: ByIndex) -> str:
    parts = []
    for at, edge in enumerate(edges if len(edges) <= _MOST else edges[: _MOST - 1]):
        but = "But " if at == len(edges) - 1 else ""
        told = step(edge, transactions)
        if edge.kind in ("rw", "wr"):
            told += f", so T{edge.source} came before T{edge.target}"
        parts.append(f"{but}{told}." if but else f"{told[0].upper()}{told[1:]}.")
    if len(edges) > _MOST:
        parts.append(
            f"{len(edges) - _MOST + 1} more such steps lead from T{edges[_MOST - 1].source} to T{edges[0].source}."
        )
    start = f"T{edges[0].source}"
    parts.append(f"Together, {start} would have to come before itself.")
    return " ".join(parts)


def op(one: Op, longest: int = 60) -> str:
    """One operation, short: "append 6 to x", "x = 6", "read x: [1, 2]"."""
    key = name(one.key)
    if one.f == "append":
        return f"append {shown(one.value)} to {key}"
    if one.f == "w":
        return f"write {shown(one.value)} to {key}"
    return f"read {key}: {value(one.value, longest)}"


def value(read: Any, longest: int = 60) -> str:
    """What was read; of a long list the end."""
    if not isinstance(read, tuple):
        return "?" if read is None else shown(read)
    kept = [shown(one) for one in read[-_LISTED:]]
    while len(kept) > 1 and sum(len(one) + 2 for one in kept) > longest:
        kept.pop(0)
    return f"[{'… ' if len(kept) < len(read) else ''}{', '.join(kept)}]"


def _g1a(one: Anomaly, transactions: ByIndex) -> str:
    reader, writer = one.indices
    wrote = "appended" if any(op.f == "append" for op in transactions[writer].ops) else "wrote"
    return (
        f"T{reader} read {shown(one.elements[0])} from {name(one.key)}. T{writer} {wrote} that value, but T{writer} "
        "failed, so nobody should ever see its writes."
    )


def _g1b(one: Anomaly, transactions: ByIndex) -> str:
    reader, writer = one.indices
    own = [each.value for each in transactions[writer].ops if each.f != "r" and each.key == one.key]
    lists = any(each.f == "append" for each in transactions[writer].ops)
    what = f"read of {name(one.key)} ends with" if lists else f"read of {name(one.key)} returned"
    return (
        f"T{reader}'s {what} {shown(one.elements[0])}, but T{writer}, which {'appended' if lists else 'wrote'} that "
        f"value, {'appended' if lists else 'wrote'} {shown(own[-1])} to {name(one.key)} after it. T{reader} saw "
        f"T{writer} half done."
    )


def _internal(one: Anomaly, transactions: ByIndex) -> str:
    index, own, key = one.indices[0], one.elements[0], name(one.key)
    written = False
    for each in transactions[index].ops:
        if each.key != one.key:
            continue
        if each.f != "r":
            written = written or each.value == own
        elif not written and (own == each.value or (isinstance(each.value, tuple) and own in each.value)):
            return f"T{index} read {shown(own)} from {key} before it wrote that value itself."
    return (
        f"T{index} wrote {shown(own)} to {key}, but a later read of {key} in the same transaction does not show that "
        "write as the latest one. A transaction must see its own writes."
    )


def _torn(one: Anomaly, transactions: ByIndex) -> str:
    reader, writer = one.indices
    own = [shown(each.value) for each in transactions[writer].ops if each.f == "append" and each.key == one.key]
    return (
        f"T{writer} appended {says.listed(own)} to {name(one.key)}, in this order. In what T{reader} read, "
        f"{shown(one.elements[0])} is there without the appends before it, or ahead of them."
    )


def _unwritten(one: Anomaly, transactions: ByIndex) -> str:
    return (
        f"T{one.indices[0]} read {shown(one.elements[0])} from {name(one.key)}, but no transaction of the history "
        "wrote that value."
    )


def _duplicate(one: Anomaly, transactions: ByIndex) -> str:
    return (
        f"T{one.indices[0]} read {name(one.key)}, and {shown(one.elements[0])} is in the list more than once. It was "
        "appended only once."
    )


def _incompatible(one: Anomaly, transactions: ByIndex) -> str:
    (first, second), (a, b) = one.indices, one.elements
    mine, other = next(pair for pair in zip(a, b, strict=False) if pair[0] != pair[1])
    return (
        f"T{first} and T{second} read lists from {name(one.key)} that contradict each other: where T{first} read "
        f"{shown(mine)}, T{second} read {shown(other)}. A list only grows at its end, so one of them read a value that "
        "was taken back."
    )


def _cyclic(one: Anomaly, transactions: ByIndex) -> str:
    values = [shown(each) if each is not None else "the initial state" for each in one.elements]
    by = says.listed(f"T{index}" for index in one.indices)
    return (
        f"What {by} read and wrote puts the versions of {name(one.key)} in a circle: {' before '.join(values)}, and "
        f"{values[-1]} before {values[0]}."
    )


def _lost(one: Anomaly, transactions: ByIndex) -> str:
    (first, second), (read, a, b) = one.indices, one.elements
    lists = any(each.f == "append" for each in transactions[first].ops)
    base = f"the same {'list' if lists else 'value'}" if read is not None else "nothing"
    if read is not None:
        base += f" ({'up to ' if lists else ''}{shown(read)})"
    verb = "appended" if lists else "wrote"
    return (
        f"T{first} and T{second} both read {base} from {name(one.key)}. Then T{first} {verb} {shown(a)} and T{second} "
        f"{verb} {shown(b)}. Whichever came later did not see the update of the other."
    )


_FACTS = {
    "G1a": _g1a, "G1b": _g1b, "internal": _internal, "torn-append": _torn, "unwritten": _unwritten,
    "duplicate-elements": _duplicate, "incompatible-order": _incompatible, "cyclic-versions": _cyclic,
    "lost-update": _lost,
}  # fmt: skip
