"""A partition as Kafka's clients see it: producers with sequence numbers, transactions, consumers, and compaction.

    partition = Partition()
    partition.append("a", 1, producer="p", sequence=0)
    partition.read(0, "read_committed")

One log in one process: replication is the subject of `isr` and `brokers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

COMMIT, ABORT = "commit", "abort"


@dataclass(frozen=True)
class Record:
    """`transaction` is the open transaction's producer; a `marker` ends it. No value deletes the key (tombstone)."""

    offset: int
    key: str | None
    value: Any
    transaction: str | None = None
    marker: str = ""


class FencedError(Exception):
    """A newer producer with the same name has begun."""


@dataclass
class Partition:
    """`sequences` are the last sequence numbers and offsets of producers, `epochs` their lives."""

    log: list[Record] = field(default_factory=list)
    sequences: dict[str, tuple[int, int]] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    open: dict[str, int] = field(default_factory=dict)  # transaction: its first offset
    end: int = 0

    def append(
        self, key: str | None, value: Any, producer: str = "", sequence: int | None = None,
        transaction: str | None = None, epoch: int = 0,
    ) -> int:  # fmt: skip
        """The offset. A sequence number that was there already is not appended again: its offset is told once more.

        Raises FencedError for a transaction of an older epoch, ValueError for a gap in the sequence numbers.
        """
        if transaction is not None:
            if epoch < self.epochs.get(transaction, 0):
                raise FencedError(f"{transaction} has begun again since")
            self.open.setdefault(transaction, self.end)
        if sequence is not None:
            last, offset = self.sequences.get(producer, (-1, -1))
            if sequence == last:
                return offset
            if sequence != last + 1:
                raise ValueError(f"sequence {sequence} after {last}")
            self.sequences[producer] = sequence, self.end
        return self._put(key, value, transaction)

    def begin(self, transaction: str) -> int:
        """A producer of this name starts: an older one is fenced, and its open transaction is aborted."""
        if transaction in self.open:
            self.finish(transaction, ABORT)
        self.epochs[transaction] = self.epochs.get(transaction, 0) + 1
        return self.epochs[transaction]

    def finish(self, transaction: str, how: str = COMMIT) -> None:
        """Writes the marker that ends it."""
        if self.open.pop(transaction, None) is not None:
            self._put(None, None, transaction, how)

    def _put(self, key: str | None, value: Any, transaction: str | None, marker: str = "") -> int:
        self.log.append(Record(self.end, key, value, transaction, marker))
        self.end += 1
        return self.end - 1

    def stable(self) -> int:
        """The last stable offset: the first one of the oldest open transaction."""
        return min(self.open.values(), default=self.end)

    def read(self, since: int = 0, isolation: str = "read_uncommitted") -> list[Record]:
        """Records from an offset on, without markers; with "read_committed" up to the last stable offset, and without
        those of aborted transactions."""
        found = [each for each in self.log if each.offset >= since and not each.marker]
        if isolation == "read_uncommitted":
            return found
        return [each for each in found if each.offset < self.stable() and not self._aborted(each)]

    def _aborted(self, record: Record) -> bool:
        ends = (each for each in self.log if each.marker and each.offset > record.offset)
        return record.transaction is not None and next(
            each.marker == ABORT for each in ends if each.transaction == record.transaction
        )

    def compact(self) -> None:
        """Keeps the last record of each key; offsets stay what they were, and a deleted key goes."""
        last = {each.key: each.offset for each in self.log if each.key is not None}
        self.log = [
            each for each in self.log if each.key is None or (last[each.key] == each.offset and each.value is not None)
        ]


def table_of(records: Sequence[Record]) -> dict[str, Any]:
    """The table that a log of changes stands for: the last value of each key."""
    found: dict[str, Any] = {}
    for each in records:
        if each.key is not None:
            found[each.key] = each.value
    return {key: value for key, value in found.items() if value is not None}


def assigned(partitions: int, consumers: Sequence[str]) -> dict[str, list[int]]:
    """Partitions of a topic, dealt out to the consumers of a group: each partition has one."""
    return {name: list(range(at, partitions, len(consumers))) for at, name in enumerate(consumers)}
