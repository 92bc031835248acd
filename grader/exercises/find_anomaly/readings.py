"""What a history says, by the rules of the exercise: version orders, edges, and the classes of anomalies in it.

The same for somebody who makes one of the `mistakes`: that tells what explains a wrong answer, and whether a
history tells the mistake from the rules. Adya, Liskov, O'Neil 2000; Kingsbury and Alvaro 2020.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from grader.exercises.find_anomaly.cycles import KINDS, RW, WR, WW, Edges, chosen, components, cycle
from grader.exercises.find_anomaly.mistakes import BY_NAME, COUNTED

Key = Any
Transaction = dict[str, Any]  # index, process, type, ops
Values = tuple[int, ...]
CLASSES = ("G0", "G1a", "G1b", "G1c", "G-single", "G2-item")


@dataclass(frozen=True)
class Read:
    """A read of an ok transaction: `raw` as it stands in the history, `values` without those of failed ones."""

    reader: int
    key: Key
    raw: Values
    values: Values


@dataclass(frozen=True)
class Why:
    """Where an edge comes from: in `key`, the versions `before` (None: nothing) and `after`, and the read, if one is."""

    key: Key
    before: int | None
    after: int | None
    read: Read | None = None


@dataclass(eq=False)
class Reading:
    """A history as somebody reads it who makes `mistake` ("": nobody)."""

    transactions: Sequence[Transaction]
    mistake: str = ""
    edges: dict[tuple[int, int], dict[str, Why]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for key in self.orders:
            self._versions(key)
        for read in self.reads:
            self._read(read)
        if self.mistake == "sessions":
            self._sessions()
        if self.mistake in ("one_kind", "last_kind"):
            ranks = KINDS if self.mistake == "one_kind" else KINDS[::-1]
            for pair, kinds in self.edges.items():
                best = min(kinds, key=ranks.index)
                self.edges[pair] = {best: kinds[best]}

    # ---- what is read

    @cached_property
    def by_index(self) -> dict[int, Transaction]:
        return {txn["index"]: txn for txn in self.transactions}

    def _types(self, failed: bool) -> set[str]:
        kept = {"ok", "info"} | ({"fail"} if self.mistake == "failed_in" else set())
        if self.mistake == "info_failed":
            kept.remove("info")
        return {"ok", "info", "fail"} - kept if failed else kept

    def _appends(self, types: set[str]) -> dict[tuple[Key, int], int]:
        found = {}
        for txn in self.transactions:
            if txn["type"] in types:
                for f, key, value in txn["ops"]:
                    if f == "append":
                        found["" if self.mistake == "by_value" else key, value] = txn["index"]
        return found

    @cached_property
    def _writers(self) -> dict[tuple[Key, int], int]:
        return self._appends(self._types(failed=False))

    @cached_property
    def _failed(self) -> dict[tuple[Key, int], int]:
        return self._appends({"fail"} | self._types(failed=True))

    def _named(self, key: Key) -> Key:
        return "" if self.mistake == "by_value" else key

    def writer(self, key: Key, value: int) -> int | None:
        """Who appended a value, where that is no failed transaction."""
        return self._writers.get((self._named(key), value))

    def failed(self, key: Key, value: int) -> int | None:
        """The failed transaction that appended a value."""
        return self._failed.get((self._named(key), value))

    @cached_property
    def reads(self) -> list[Read]:
        """The ok reads, those that somebody counts."""
        found = []
        for txn in self.transactions:
            seen: set[Key] = set()
            mine = []
            types = ("ok", "info") if self.mistake == "info_reads" else ("ok",)
            ops = [op for op in txn["ops"] if op[0] == "r"] if txn["type"] in types else []
            for _, key, value in ops[::-1] if self.mistake == "last_read" else ops:
                if self.mistake in ("one_read", "last_read") and key in seen:
                    continue
                seen.add(key)
                if value is None and self.mistake == "null_skipped":
                    continue
                raw = tuple(value or ())
                kept = raw if self.mistake == "no_removal" else tuple(v for v in raw if self.writer(key, v) is not None)
                mine.append(Read(txn["index"], key, raw, kept))
            found += mine[::-1] if self.mistake == "last_read" else mine
        return found

    @cached_property
    def _reads_of(self) -> dict[Key, list[Values]]:
        """The longest first."""
        found: dict[Key, list[Values]] = defaultdict(list)
        for read in sorted(self.reads, key=lambda one: -len(one.raw if self.mistake == "longest_raw" else one.values)):
            found[read.key].append(read.values)
        return found

    @cached_property
    def orders(self) -> dict[Key, Values]:
        """The order of versions of every key that gives edges."""
        if self.mistake in BY_NAME:
            return self._by_names()
        found = {}
        for key, lists in self._reads_of.items():
            longest = lists[0]
            repeats = len(set(longest)) < len(longest) and self.mistake != "repeats"
            conflict = any(read != longest[: len(read)] for read in lists) and self.mistake != "conflicts"
            if not repeats and not conflict:
                found[key] = longest
        if self.mistake == COUNTED:
            return {
                key: tuple(v for v in values if v in found[key])
                for key, values in self._by_names().items()
                if key in found
            }
        if self.mistake == "all_keys" and len(found) < len(self._reads_of):
            return {}
        if self.mistake == "unseen_last":
            for txn in self.transactions:
                for f, key, value in txn["ops"]:
                    if txn["type"] == "info" and f == "append" and key in found and value not in found[key]:
                        found[key] += (value,)
        return found

    def _by_names(self) -> dict[Key, Values]:
        appends: dict[Key, list[int]] = defaultdict(list)
        for key, value in self._seen_in_order():
            appends[key].append(value)
        if self.mistake == "by_number":
            return {key: tuple(sorted(values)) for key, values in appends.items()}
        return {key: tuple(values) for key, values in appends.items()}

    def _seen_in_order(self) -> Iterator[tuple[Key, int]]:
        seen = {(read.key, value) for read in self.reads for value in read.values}
        chosen = self.transactions
        if self.mistake == "by_index":
            chosen = sorted(chosen, key=lambda txn: txn["index"])
        for txn in chosen:
            yield from ((key, v) for f, key, v in txn["ops"] if f == "append" and (key, v) in seen)

    # ---- edges

    def _add(self, source: int | None, kind: str, target: int | None, why: Why) -> None:
        if source is None or target is None or source == target:
            return
        if self.mistake == "info_out" and "info" in (self.by_index[source]["type"], self.by_index[target]["type"]):
            return
        self.edges.setdefault((source, target), {}).setdefault(kind, why)

    def _versions(self, key: Key) -> None:
        order = self.orders[key]
        for before, after in pairwise(order):
            self._add(self.writer(key, before), WW, self.writer(key, after), Why(key, before, after))

    def _read(self, read: Read) -> None:
        order = self.orders.get(read.key)
        if order is None or (self.mistake == "raw_end" and read.raw[-1:] != read.values[-1:]):
            return
        last = read.values[-1] if read.values else None
        own = last is not None and self.writer(read.key, last) == read.reader
        if own and self.mistake != "own_append":
            return
        if last is not None and not own:
            self._add(self.writer(read.key, last), WR, read.reader, Why(read.key, last, None, read))
        if self.mistake == "no_rw" or (last is None and self.mistake == "no_first"):
            return
        at = len(read.values)
        if self.mistake in BY_NAME and last is not None:
            at = order.index(last) + 1 if last in order else len(order)
        if self.mistake == "skips_own":
            while at < len(order) and self.writer(read.key, order[at]) == read.reader:
                at += 1
        if at < len(order):
            self._add(read.reader, RW, self.writer(read.key, order[at]), Why(read.key, last, order[at], read))

    def _sessions(self) -> None:
        last: dict[Any, int] = {}
        for txn in sorted(self.transactions, key=lambda txn: txn["index"]):
            if txn["type"] == "ok":
                self._add(last.get(txn["process"]), WW, txn["index"], Why("", None, None))
                last[txn["process"]] = txn["index"]

    # ---- anomalies

    def aborted_reads(self) -> Iterator[tuple[int, int, Read, int]]:
        """G1a: failed writer, reader, the read, and the value."""
        for read in self.reads:
            if self.mistake == "g1a_ordered" and read.key not in self.orders:
                continue
            for value in read.raw[-1:] if self.mistake == "g1a_last" else read.raw:
                writer = self.failed(read.key, value)
                if writer is not None:
                    yield writer, read.reader, read, value

    @cached_property
    def _last(self) -> dict[tuple[int, Key], int]:
        appends = [
            ((txn["index"], key), value) for txn in self.transactions for f, key, value in txn["ops"] if f == "append"
        ]
        return dict(appends[::-1] if self.mistake == "g1b_first" else appends)

    def last_append(self, index: int, key: Key) -> int:
        return self._last[index, key]

    def intermediate_reads(self) -> Iterator[tuple[int, int, Read, int]]:
        """G1b: writer, reader, the read, and the value."""
        for read in self.reads:
            if self.mistake == "g1b_ordered" and read.key not in self.orders:
                continue
            values = read.values if self.mistake == "clean_g1b" else read.raw
            for value in values if self.mistake == "g1b_inside" else values[-1:]:
                writer = self.writer(read.key, value)
                if writer is None or (writer == read.reader and self.mistake != "g1b_own"):
                    continue
                if self.mistake == "g1b_info" and self.by_index[writer]["type"] == "info":
                    continue
                if self._last.get((writer, read.key), value) != value:
                    yield writer, read.reader, read, value

    @cached_property
    def cyclic(self) -> dict[str, list[int]]:
        """One cycle of each class that must be reported, in its direction."""
        found: dict[str, list[int]] = {}
        for nodes in components(self.edges, KINDS):
            inside = {pair: kinds for pair, kinds in self.edges.items() if pair[0] in nodes and pair[1] in nodes}
            simple = self._simple(inside)
            if not any(simple.values()) and self.mistake != "pairs":
                simple["G2-item"] = cycle(inside, RW, KINDS)
            elif not any(simple.values()):
                simple["G2-item"] = next(
                    ([a, b] for a, b in inside if RW in inside[a, b] and RW in inside.get((b, a), {})), None
                )
            if self.mistake == "single_is_g2" and simple.get("G-single"):
                simple["G2-item"] = simple.pop("G-single")
            found |= {name: cycle for name, cycle in simple.items() if cycle and name not in found}
        if self.mistake == "whole_graph" and len(found) > 1:
            found.pop("G2-item", None)
        return found

    def _simple(self, inside: Edges) -> dict[str, list[int] | None]:
        """The cycles with fewer than two rw edges."""
        if self.mistake == "pairs":
            pairs = [(a, b, inside[a, b], inside[b, a]) for a, b in inside if (b, a) in inside]
            tries = {"G0": (WW, (WW,)), "G1c": (WR, (WW, WR)), "G-single": (RW, (WW, WR))}
            return {
                name: next(([a, b] for a, b, there, back in pairs if first in there and set(others) & set(back)), None)
                for name, (first, others) in tries.items()
            }
        wr = cycle(inside, WR, (WR,)) if self.mistake == "pure_wr" else cycle(inside, WR, (WW, WR))
        writes = cycle(inside, WW, (WW,))
        if self.mistake == "g0_pairs":
            writes = next(([a, b] for a, b in inside if WW in inside[a, b] and WW in inside.get((b, a), {})), None)
        single = cycle(inside, RW, (WW, WR))
        if self.mistake == "unmixed":
            single = cycle(inside, RW, (WW,)) or cycle(inside, RW, (WR,))
        return {"G0": writes, "G1c": wr, "G-single": single}

    @cached_property
    def classes(self) -> frozenset[str]:
        """The classes that must be reported."""
        if self.mistake == "none":
            return frozenset()
        found = set(self.cyclic)
        found |= {"G1a"} if any(True for _ in self.aborted_reads()) else set()
        found |= {"G1b"} if any(True for _ in self.intermediate_reads()) else set()
        return frozenset(found)

    # ---- witnesses

    def kinds(self, cycle: Sequence[int]) -> list[dict[str, Why]]:
        """Of each step of a cycle the edges that there are, none where there is no edge."""
        return [self.edges.get((a, b), {}) for a, b in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True)]

    def fits(self, name: str, cycle: Sequence[int]) -> bool:
        """Whether one choice of edges makes a cycle a witness of this class."""
        return chosen(name, self.kinds(cycle)) is not None
