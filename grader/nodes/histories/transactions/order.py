"""Orders that come from no key: real time, and that of each process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from grader.nodes.histories.history import NEVER, Process
from grader.nodes.histories.transactions.transaction import Transaction


def frontier(transactions: Sequence[Transaction], places: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Pairs of places of which the first had ended when the second began: the fewest that give all others.

    This is the transitive reduction of an interval order. Only ended transactions after which no other began and ended
    are kept, so that there are at most as many pairs per transaction as transactions at the same time. Unknown
    transactions end no more, and failed ones do not count.
    """
    events: list[tuple[float, int, int]] = []
    for at in places:
        one = transactions[at]
        if one.status != "fail":
            events.append((one.called, 0, at))
            if one.status == "ok" and one.returned != NEVER:
                events.append((one.returned, 1, at))
    events.sort()
    last: dict[int, None] = {}
    before: dict[int, list[int]] = {}
    for _, ends, at in events:
        if not ends:
            before[at] = list(last)
            for source in before[at]:
                yield source, at
        else:
            for source in before.pop(at):
                last.pop(source, None)
            last[at] = None


def real_time(transactions: Sequence[Transaction]) -> Iterator[tuple[int, int]]:
    """Pairs of places of transactions one of which had ended when the other began; see `frontier`."""
    return frontier(transactions, range(len(transactions)))


def sessions(transactions: Sequence[Transaction]) -> Iterator[tuple[int, int]]:
    """Pairs of places of transactions that one process ran one directly after the other.

    After an unknown one nothing is known: it may take effect later than what the process did next.
    """
    last: dict[Process, int] = {}
    for at in sorted(range(len(transactions)), key=lambda at: transactions[at].called):
        one = transactions[at]
        if one.status == "fail":
            continue
        if one.process in last:
            yield last[one.process], at
        if one.status == "ok":
            last[one.process] = at
