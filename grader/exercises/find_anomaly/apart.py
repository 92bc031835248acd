"""Takes out of what clients of a store saw the reads that built histories are about. By chance such a read would decide
what somebody finds in a store who gets just that wrong: which points a mistake costs must not depend on what is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from grader.exercises.find_anomaly.cycles import KINDS, RW, components
from grader.exercises.find_anomaly.readings import Key, Read, Reading, Transaction, Values

# mistakes that add edges: with one of them in a cycle, a witness is none by chance
ADDING = ("own_append", "skips_own", "info_reads")
Place = tuple[int, Key, Values]  # of reads: the transaction's index, the key, and what was read


def without_built_ones(transactions: Sequence[Transaction]) -> list[Transaction]:
    """The same transactions without the reads by which a mistake of ADDING adds an edge within a strongly connected component,
    without reads of nothing that give such an edge, and without those that would be G1b if the reader's own appends or those
    of failed transactions counted."""
    left = list(transactions)
    while places := {(read.reader, read.key, read.raw) for read in _telling(left)}:
        left = [{**txn, "ops": [op for op in txn["ops"] if not _is_at(txn, op, places)]} for txn in left]
    return left


def _is_at(txn: Transaction, op: Sequence[Any], places: set[Place]) -> bool:
    f, key, value = op
    return f == "r" and (txn["index"], key, tuple(value or ())) in places


def _telling(transactions: Sequence[Transaction]) -> Iterator[Read]:
    right = Reading(transactions)
    yield from _own_or_failed(transactions, right)
    for pair, kinds in _inside(right):
        if RW in kinds and (read := right.edges[pair][RW].read) and not read.values:
            yield read
    for mistake in ADDING:
        other = Reading(transactions, mistake)
        for pair, kinds in _inside(other):
            if RW in kinds and RW not in right.edges.get(pair, {}) and (read := other.edges[pair][RW].read):
                yield read


def _inside(reading: Reading) -> Iterator[tuple[tuple[int, int], set[str]]]:
    """The edges within strongly connected components, each with its kinds."""
    place = {node: number for number, nodes in enumerate(components(reading.edges, KINDS)) for node in nodes}
    for (source, target), kinds in reading.edges.items():
        if source in place and place[source] == place.get(target):
            yield (source, target), set(kinds)


def _own_or_failed(transactions: Sequence[Transaction], right: Reading) -> Iterator[Read]:
    """Reads that end with a value of the reader or of a failed transaction, where one of these appended something later, or
    the reader something else. None of them is G1b."""
    last = {
        (txn["index"], key): value for txn in transactions for f, key, value in txn["ops"] if f == "append"
    }  # later appends come later
    for read in right.reads:
        if read.raw:
            value = read.raw[-1]
            failed = right.failed(read.key, value)
            if failed is None and right.writer(read.key, value) != read.reader:
                continue
            authors = {read.reader, read.reader if failed is None else failed}
            if any(last.get((author, read.key), value) != value for author in authors):
                yield read
