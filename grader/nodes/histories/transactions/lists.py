"""Lists to which transactions append: the order of versions is what the longest read shows.

A read of a list tells all versions up to the one read, so nothing need be guessed (Kingsbury and Alvaro 2020: lists are
"traceable", and unique values make them "recoverable"). Values of failed transactions are taken out of reads, which is
G1a. Then the longest read of a key is its order of versions, if no value is in it twice and every other read is a
beginning of it. Otherwise the key gives no edges, and the anomaly says why.

Appends that no ok read shows have no place in the order. With `unread`, those of transactions that took effect (ok
ones, and unknown ones of which something was read) come after all that was read, in no order among themselves. Then a
history without anomalies is exactly one that some order of transactions explains: an append that is lost shows, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from grader.nodes.histories.history import Key
from grader.nodes.histories.transactions.parts import Seen
from grader.nodes.histories.transactions.transaction import Transaction
from grader.submission import BadRequest


@dataclass(slots=True)
class _Key:
    """What the history says of one key; transactions are places in it."""

    writer: dict[Any, int] = field(default_factory=dict)  # by value
    last: dict[int, Any] = field(default_factory=dict)  # by transaction: the last value that it appended
    reads: list[tuple[tuple[Any, ...], int]] = field(default_factory=list)  # of ok transactions
    failed: set[Any] = field(default_factory=set)
    many: dict[int, list[Any]] = field(default_factory=dict)  # by transaction: what it appended, if more than one value
    updates: dict[tuple[Any, ...], tuple[int, Any]] = field(default_factory=dict)  # by read: who read it, then appended


_MOST = 10_000  # edges of a key that come from appends which nobody read: those that ended first count


def passed(transactions: Sequence[Transaction], unread: bool = False) -> Seen:
    """Anomalies that need no cycle, and the edges ww, wr and rw. Raises BadRequest where a value is appended twice."""
    seen = Seen(transactions)
    keys: dict[Key, _Key] = {}
    for at, one in enumerate(transactions):
        _collect(at, one, keys, seen)
    orders = {}
    for key, own in keys.items():
        _judge_reads(key, own, seen)
        order = _order(key, own, seen)
        if order is not None:
            orders[key] = order
            _edges(key, own, order, seen)
    if unread:
        happened = {at for at, one in enumerate(transactions) if one.status == "ok"}
        happened |= {
            keys[key].writer[value] for key, order in orders.items() for value in order if value in keys[key].writer
        }
        for key, order in orders.items():
            _unread_edges(key, keys[key], order, happened, seen)
    return seen


def _collect(at: int, one: Transaction, keys: dict[Key, _Key], seen: Seen) -> None:
    mine: dict[Key, Any] = {}  # the last value that it appended so far
    before: dict[Key, list[tuple[Any, ...]]] = {}  # what it read before it appended
    for op in one.ops:
        own = keys.get(op.key)
        if own is None:
            own = keys[op.key] = _Key()
        if op.f == "append":
            if op.value in own.writer:
                raise BadRequest(
                    f"{op.value!r} is appended to {op.key} twice, by transactions "
                    f"{seen.transactions[own.writer[op.value]].index} and {one.index}. Append each value once per key"
                )
            own.writer[op.value] = at
            own.last[at] = op.value
            if one.status == "fail":
                own.failed.add(op.value)
            elif op.key in before:
                if any(op.value in read for read in before[op.key]):  # it saw what it had not done yet
                    seen.note("internal", (at,), op.key, op.value)
                if op.key not in mine:
                    _updated(at, op.key, op.value, before[op.key][-1], own, seen)
            if op.key in mine:
                own.many.setdefault(at, [mine[op.key]]).append(op.value)
            mine[op.key] = op.value
        elif op.f != "r":
            raise BadRequest(f"transaction {one.index} has a {op.f!r}, which a list does not have")
        elif one.status == "ok" and op.value is not None:
            read = op.value
            own.reads.append((read, at))
            if op.key not in mine:
                before.setdefault(op.key, []).append(read)
            elif not read or read[-1] != mine[op.key]:
                seen.note("internal", (at,), op.key, mine[op.key])


def _updated(at: int, key: Key, value: Any, read: tuple[Any, ...], own: _Key, seen: Seen) -> None:
    """The first append after a read of the same key."""
    first = own.updates.setdefault(read[-1:], (at, value))
    if first[0] != at:
        seen.note("lost-update", (first[0], at), key, read[-1] if read else None, first[1], value)


def _judge_reads(key: Key, own: _Key, seen: Seen) -> None:
    """G1a, G1b and what nobody wrote; takes the values of failed transactions out of the reads."""
    failed, writer = own.failed, own.writer
    for place, (read, at) in enumerate(own.reads):
        if not read:
            continue
        last = read[-1]
        source = writer.get(last)
        if source is not None and source != at and own.last[source] != last and last not in failed:
            seen.note("G1b", (at, source), key, last)
        if failed and not failed.isdisjoint(read):
            value = next(value for value in read if value in failed)
            seen.note("G1a", (at, writer[value]), key, value)
            own.reads[place] = tuple(value for value in read if value not in failed), at


def _order(key: Key, own: _Key, seen: Seen) -> tuple[Any, ...] | None:
    """The versions of a key, None where reads contradict."""
    if not own.reads:
        return None
    longest, reader = max(own.reads, key=lambda each: len(each[0]))
    good = len(set(longest)) == len(longest)
    if not good:
        _repeated(key, longest, reader, seen)
    _unwritten(key, longest, reader, own, seen)
    for read, at in own.reads:
        if longest[: len(read)] != read:
            if len(set(read)) < len(read):
                _repeated(key, read, at, seen)
            else:
                seen.note("incompatible-order", (at, reader), key, read, longest)
            _unwritten(key, read, at, own, seen)
            good = False
    if good and own.many:
        _torn(key, longest, own, seen)
    return longest if good else None


def _torn(key: Key, order: tuple[Any, ...], own: _Key, seen: Seen) -> None:
    """What one transaction appended must be there in its order, and nothing left out before a later value."""
    found: dict[int, list[Any]] = {at: [] for at in own.many}
    for value in order:
        at = own.writer.get(value)
        if at in found:
            found[at].append(value)
    for at, values in found.items():
        expected = own.many[at][: len(values)]
        if values != expected:
            bad = next(value for value, other in zip(values, expected, strict=True) if value != other)
            reader = next(reader for read, reader in own.reads if bad in read)
            seen.note("torn-append", (reader, at), key, bad)


def _repeated(key: Key, read: tuple[Any, ...], at: int, seen: Seen) -> None:
    met: set[Any] = set()
    for value in read:
        if value in met:
            seen.note("duplicate-elements", (at,), key, value)
            return
        met.add(value)


def _unwritten(key: Key, read: tuple[Any, ...], at: int, own: _Key, seen: Seen) -> None:
    if not own.writer.keys() >= set(read):
        seen.note("unwritten", (at,), key, next(value for value in read if value not in own.writer))


def _edges(key: Key, own: _Key, order: tuple[Any, ...], seen: Seen) -> None:
    """Versions that nobody wrote (the anomaly "unwritten") have no writer, so that no edge comes from them."""
    ww, wr, rw = seen.edges_of("ww"), seen.edges_of("wr"), seen.edges_of("rw")
    count, writer = len(seen.transactions), own.writer
    known = [(value, writer[value]) for value in order if value in writer]
    for (first, source), (second, target) in pairwise(known):
        if source != target:
            ww.setdefault(source * count + target, (key, first, second))
    following: list[tuple[Any, int] | None] = []  # by number of elements read: the next version and its writer
    after: tuple[Any, int] | None = None
    for value in reversed(order):
        following.append(after)
        if value in writer:
            after = value, writer[value]
    following.append(after)
    following.reverse()
    for read, at in own.reads:
        last = read[-1] if read else None
        source_ = writer.get(last) if read else None
        if source_ == at:
            continue
        if source_ is not None:
            wr.setdefault(source_ * count + at, (key, last))
        then = following[len(read)]
        if then is not None and then[1] != at:
            rw.setdefault(at * count + then[1], (key, last, then[0]))


def _unread_edges(key: Key, own: _Key, order: tuple[Any, ...], happened: set[int], seen: Seen) -> None:
    """From who wrote and read the last version that was read to those whose appends nobody read."""
    versions, transactions = set(order), seen.transactions
    new: dict[int, Any] = {}
    for value, at in own.writer.items():
        if value not in versions and value not in own.failed and at in happened:
            new.setdefault(at, value)
    if not new:
        return
    count, last = len(transactions), order[-1] if order else None
    readers = [at for read, at in own.reads if len(read) == len(order) and own.writer.get(last) != at]
    targets = sorted(new, key=lambda at: transactions[at].returned)[: max(_MOST // (len(readers) + 1), 1)]
    final = next((value for value in reversed(order) if value in own.writer), None)
    if final is not None:
        source = own.writer[final]
        ww = seen.edges_of("ww")
        for at in targets:
            if at != source:
                ww.setdefault(source * count + at, (key, final, new[at]))
    rw = seen.edges_of("rw")
    for reader in readers:
        for at in targets:
            if at != reader:
                rw.setdefault(reader * count + at, (key, last, new[at]))
