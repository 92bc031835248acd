"""Registers that transactions read and write: which versions came before which is inferred, as far as it can be.

A read tells one version and not those before it, so that the order of versions stays partial (Kingsbury and Alvaro
2020, on registers). Each value is written at most once per key, hence it is known who wrote what was read. Inferred is:

- The initial state, None, is before every other version.
- Writes of one transaction to one key are in its order; all but the last are intermediate.
- Writes follow reads: a version that a transaction read, before it wrote the key itself, is before the version that it
  wrote. (A store that lets a blind write into the past, as "last writer wins" does with clocks, breaks this.)
- Only with `linearizable_keys`: where an ok transaction had ended before another began, the versions of a key that the
  first read or wrote are not after those that the second did. That is true if each key for itself is linearizable.

Not inferred: the order of two blind writes, of versions that only failed or unread unknown transactions wrote, nor
anything from one key about another. So anomalies may stay unseen that a history of lists would show; those found are
anomalies in every order of versions with these properties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import rustworkx

from grader.nodes.histories.history import Key
from grader.nodes.histories.transactions.order import frontier
from grader.nodes.histories.transactions.parts import Seen
from grader.nodes.histories.transactions.transaction import Transaction
from grader.submission import BadRequest

_Pair = tuple[Any, Any]


@dataclass(slots=True)
class _Key:
    """What the history says of one key; transactions are places in it."""

    writer: dict[Any, int] = field(default_factory=dict)  # by value
    last: dict[int, Any] = field(default_factory=dict)  # by transaction: the last value that it wrote
    reads: list[tuple[Any, int]] = field(default_factory=list)  # of ok transactions, before they wrote the key
    pairs: dict[_Pair, int] = field(default_factory=dict)  # an earlier and a later version: which transaction shows it
    updates: dict[Any, tuple[int, Any]] = field(default_factory=dict)  # by value read: who read it, then wrote
    spans: list[tuple[int, Any, Any]] = field(default_factory=list)  # transaction, first and last version it met


def passed(transactions: Sequence[Transaction], linearizable_keys: bool = False) -> Seen:
    """Anomalies that need no cycle, and the edges ww, wr and rw. Raises BadRequest where a value is written twice."""
    seen = Seen(transactions)
    keys: dict[Key, _Key] = {}
    for at, one in enumerate(transactions):
        _collect(at, one, keys, seen)
    for key, own in keys.items():
        _judge_reads(key, own, seen)
        if linearizable_keys:
            _timed(own, seen)
        _edges(key, own, seen)
    return seen


def _collect(at: int, one: Transaction, keys: dict[Key, _Key], seen: Seen) -> None:
    mine: dict[Key, Any] = {}
    before: dict[Key, Any] = {}  # what it last read, where it had not written yet
    first: dict[Key, Any] = {}
    ok = one.status == "ok"
    for op in one.ops:
        own = keys.get(op.key)
        if own is None:
            own = keys[op.key] = _Key()
        if op.f == "w":
            _written(at, op.key, op.value, own, seen)
            if op.key in mine and one.status != "fail":
                own.pairs.setdefault((mine[op.key], op.value), at)
            elif ok and op.key in before:
                read = before[op.key]
                earlier = own.updates.setdefault(read, (at, op.value))
                if earlier[0] != at:
                    seen.note("lost-update", (earlier[0], at), op.key, read, earlier[1], op.value)
            mine[op.key] = op.value
            first.setdefault(op.key, op.value)
        elif op.f != "r":
            raise BadRequest(f"transaction {one.index} has {op.f!r}, which a register does not have")
        elif ok and op.key in mine:
            if op.value != mine[op.key]:
                seen.note("internal", (at,), op.key, mine[op.key])
                own.reads.append((op.value, at))
        elif ok:
            own.reads.append((op.value, at))
            before[op.key] = op.value
            first.setdefault(op.key, op.value)
    for key, value in first.items():
        if one.status != "fail":
            keys[key].spans.append((at, value, mine.get(key, before.get(key))))
    for key, value in before.items():
        if key in mine and keys[key].writer.get(value) != at:
            written = next(op.value for op in one.ops if op.f == "w" and op.key == key)
            keys[key].pairs.setdefault((value, written), at)


def _written(at: int, key: Key, value: Any, own: _Key, seen: Seen) -> None:
    if value is None:
        raise BadRequest(f"transaction {seen.transactions[at].index} writes null to {key}. Null is the initial state")
    if value in own.writer:
        raise BadRequest(
            f"{value!r} is written to {key} twice, by transactions {seen.transactions[own.writer[value]].index} and "
            f"{seen.transactions[at].index}. Write each value once per key"
        )
    own.writer[value] = at
    own.last[at] = value


def _judge_reads(key: Key, own: _Key, seen: Seen) -> None:
    for value, at in own.reads:
        if value is None:
            continue
        source = own.writer.get(value)
        if source is None:
            seen.note("unwritten", (at,), key, value)
        elif source == at:
            seen.note("internal", (at,), key, value)  # an own value before it was written, or one written over
        elif seen.transactions[source].status == "fail":
            seen.note("G1a", (at, source), key, value)
        elif own.last[source] != value:
            seen.note("G1b", (at, source), key, value)


def _timed(own: _Key, seen: Seen) -> None:
    """Versions in the order of time, from one transaction on the key to the next ones."""
    spans = {at: (first, last) for at, first, last in own.spans}
    for at, (first, last) in spans.items():
        if first != last:
            own.pairs.setdefault((first, last), at)
    for source, target in frontier(seen.transactions, spans):
        earlier, later = spans[source][1], spans[target][0]
        if earlier != later:
            own.pairs.setdefault((earlier, later), target)


def _edges(key: Key, own: _Key, seen: Seen) -> None:
    transactions, count, writer = seen.transactions, len(seen.transactions), own.writer
    read_by: dict[Any, list[int]] = {}
    for value, at in own.reads:
        read_by.setdefault(value, []).append(at)
    versions = {value: at for value, at in writer.items() if transactions[at].status == "ok"
                or (transactions[at].status == "info" and value in read_by)}  # fmt: skip
    pairs = {
        pair: at
        for pair, at in own.pairs.items()
        if pair[1] in versions and (pair[0] is None or pair[0] in versions) and pair[0] != pair[1]
    }
    later = {second for first, second in pairs if first is not None}
    pairs |= {(None, value): at for value, at in versions.items() if value not in later and (None, value) not in pairs}
    wr = seen.edges_of("wr")
    for value, readers in read_by.items():
        source = writer.get(value)
        if source is not None and transactions[source].status != "fail":
            for at in readers:
                if at != source:
                    wr.setdefault(source * count + at, (key, value))
    shown = {pair: at for pair, at in own.pairs.items() if pair[1] is None and pair[0] in versions} | pairs
    if _cyclic(key, shown, seen):
        return
    ww, rw = seen.edges_of("ww"), seen.edges_of("rw")
    for first, second in pairs:
        target = versions[second]
        if first is not None and versions[first] != target:
            ww.setdefault(versions[first] * count + target, (key, first, second))
        for at in read_by.get(first, ()):
            if at != target:
                rw.setdefault(at * count + target, (key, first, second))


def _cyclic(key: Key, pairs: dict[_Pair, int], seen: Seen) -> bool:
    """Whether the versions contradict each other: then the key gives no ww and rw."""
    back = next((pair for pair in pairs if pair[1] is None), None)
    if back is not None:  # the initial state, seen again: every other version is after it
        seen.note("cyclic-versions", (pairs[back],), key, None, back[0])
        return True
    places: dict[Any, int] = {}
    edges = [(places.setdefault(a, len(places)), places.setdefault(b, len(places))) for a, b in pairs]
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from(list(places))
    graph.extend_from_edge_list(edges)
    bad = [part for part in rustworkx.strongly_connected_components(graph) if len(part) > 1]
    if not bad:
        return False
    cycle = rustworkx.digraph_find_cycle(graph, min(min(part) for part in bad))
    values = [(graph[a], graph[b]) for a, b in cycle]
    seen.note("cyclic-versions", list(dict.fromkeys(pairs[pair] for pair in values)), key, *(a for a, _ in values))
    return True
