"""A small store of versions under one isolation level, driven operation by operation.

Operations: `r KEY`, `u KEY` (read and lock, as SELECT FOR UPDATE), `w KEY 5`, `w KEY +10` (of what this one has read
or wrote last), `a KEY 7` (append), `scan PREFIX` (keys that begin so), `commit`, `abort`. Levels: see LEVELS. Snapshot
isolation refuses the second writer (first updater wins), as PostgreSQL's REPEATABLE READ does; "ssi" adds Cahill's test
for dangerous structures (Cahill, Röhm and Fekete, SIGMOD 2008); "occ" validates at the commit what was read (Kung and
Robinson, TODS 1981). `interleaved` plays schedules on it, `contention` a load.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

LEVELS = {
    "none": "no isolation",
    "read uncommitted": "read uncommitted",
    "read committed": "read committed",
    "snapshot": "snapshot isolation",
    "ssi": "serializable: SSI",
    "occ": "serializable: optimistic",
    "2pl": "serializable: two-phase locking",
    "wound-wait": "serializable: two-phase locking, wound-wait",
}
LOCKING, SNAPSHOTS = ("2pl", "wound-wait"), ("snapshot", "ssi")


@dataclass(eq=False)
class Tx:
    """A transaction. `start` and `end` are places in the order of commits; `age` decides who is wounded."""

    number: int
    start: int
    age: int
    read_only: bool = False  # declared so
    state: str = "active"  # waiting, committed, refused, aborted
    why: str = ""
    end: int | None = None
    wrote: dict[str, Any] = field(default_factory=dict)
    read: list[tuple[str, Version | None]] = field(default_factory=list)
    scanned: set[str] = field(default_factory=set)
    locked: set[str] = field(default_factory=set)
    known: dict[str, Any] = field(default_factory=dict)  # what it read or wrote last
    waits: set[Tx] = field(default_factory=set)
    into: set[Tx] = field(default_factory=set)  # whose reads it overwrote
    out: set[Tx] = field(default_factory=set)  # who overwrote what it read

    @property
    def alive(self) -> bool:
        return self.state in ("active", "waiting")

    def has_read(self, key: str) -> bool:
        return any(key == each for each, _ in self.read) or any(key.startswith(each) for each in self.scanned)


@dataclass(eq=False)
class Version:
    value: Any
    by: Tx
    key: str


class Conflict(Exception):  # noqa: N818 - reads as what happened
    """The transaction is refused; the message says why."""


class Wait(Exception):  # noqa: N818 - reads as what happened
    """The operation must wait for these transactions."""

    def __init__(self, on: set[Tx]) -> None:
        self.on = on


class Store:
    """Versions of keys in the order in which they were written. `initial` values are those of a transaction 0.

    Without `keep`, versions that no living transaction can see are removed at each commit.
    """

    def __init__(self, level: str, initial: dict[str, Any] | None = None, keep: bool = True) -> None:
        self.level, self.clock, self.keep = level, 0, keep
        first = Tx(0, 0, 0, state="committed", end=0)
        self.versions = {key: [Version(value, first, key)] for key, value in (initial or {}).items()}
        self.locks: dict[str, dict[Tx, str]] = {}  # of keys
        self.ranges: dict[Tx, set[str]] = {}  # shared locks of prefixes
        self.all: list[Tx] = []  # that are alive, or concurrent with one that is

    def begin(self, number: int, age: int | None = None, read_only: bool = False) -> Tx:
        tx = Tx(number, self.clock, number if age is None else age, read_only)
        self.all.append(tx)
        return tx

    # ---- operations: each returns a value, or raises Wait or Conflict

    def do(self, tx: Tx, what: str) -> Any:
        """One operation in words. Raises Wait, and Conflict when the transaction has been refused."""
        kind, *rest = what.split()
        if kind == "commit":
            return self.commit(tx)
        if kind == "abort":
            return self._end(tx, "aborted")
        if kind == "scan":
            return self.scan(tx, rest[0])
        if kind in "ru":
            return self.read(tx, rest[0], kind == "u")
        return self.write(tx, kind, *rest)

    def read(self, tx: Tx, key: str, for_update: bool = False) -> Any:
        if for_update:
            self._claim(tx, key)
        elif self.level in LOCKING:
            self._lock(tx, key, "S")
        seen = self._visible(tx, key)
        tx.read.append((key, seen))
        self._newer(tx, key, seen)
        tx.known[key] = seen and seen.value
        return tx.known[key]

    def scan(self, tx: Tx, prefix: str) -> int:
        """How many keys begin so."""
        if self.level in LOCKING:
            rivals = {w for key, held in self.locks.items() if key.startswith(prefix) for w, m in held.items()
                      if m == "X" and w is not tx}  # fmt: skip
            self._wait(tx, rivals)
            self.ranges.setdefault(tx, set()).add(prefix)
        tx.scanned.add(prefix)
        seen = {key: self._visible(tx, key) for key in self.versions if key.startswith(prefix)}
        found = [key for key, version in seen.items() if version]
        tx.read.append((f"{prefix}*", Version(found, tx, prefix)))
        for key, version in seen.items():
            if version is not None:
                tx.read.append((key, version))
            self._newer(tx, key, version)
        return len(found)

    def write(self, tx: Tx, kind: str, key: str, value: str) -> Any:
        versions = self.versions.setdefault(key, [])
        self._claim(tx, key)
        if kind == "a":
            before = self._visible(tx, key)
            if self.level == "occ":
                tx.read.append((key, before))
            new: Any = (*(before.value if before else ()), int(value))
        else:
            new = tx.known.get(key, 0) + int(value) if value[0] in "+-" else int(value)
        for other in self.all if self.level == "ssi" else ():
            if other is not tx and other.state != "refused" and self._concurrent(other, tx) and other.has_read(key):
                self._edge(other, tx)
        versions.append(Version(new, tx, key))
        tx.wrote[key] = tx.known[key] = new
        return new

    def commit(self, tx: Tx) -> None:
        if self.level == "ssi":
            self._dangerous(tx)
        if self.level == "occ":
            for key, seen in tx.read:
                last = next((each for each in reversed(self.versions.get(key, [])) if each.by.end is not None), None)
                if (seen is None or seen.by is not tx) and last is not seen:
                    raise Conflict(f"{key} has changed since it was read")
            for prefix in tx.scanned:
                for key, versions in self.versions.items():
                    if key.startswith(prefix) and any((v.by.end or 0) > tx.start for v in versions):
                        raise Conflict(f"{key} has appeared since the scan")
            for key in tx.wrote:  # versions stand in the order of commits
                mine = [each for each in self.versions[key] if each.by is tx]
                self.versions[key] = [each for each in self.versions[key] if each.by is not tx] + mine
        self.clock += 1
        tx.end = self.clock
        self._end(tx, "committed")

    def refuse(self, tx: Tx, why: str) -> None:
        tx.why = why
        self._end(tx, "refused")

    # ---- what they are made of

    def _visible(self, tx: Tx, key: str) -> Version | None:
        for each in reversed(self.versions.get(key, [])):
            own, done = each.by is tx, each.by.end is not None
            if own or self.level in ("none", "read uncommitted"):
                return each
            if done and (self.level not in SNAPSHOTS or (each.by.end or 0) <= tx.start):
                return each
        return None

    def _wait(self, tx: Tx, on: set[Tx]) -> None:
        if not on:
            return
        if self.level == "wound-wait":
            for each in [each for each in on if each.age > tx.age]:
                self.refuse(each, f"wounded by T{tx.number}, which is older")
            on = {each for each in on if each.alive}
            if not on:
                return
        raise Wait(on)

    def _claim(self, tx: Tx, key: str) -> None:
        """The right to write the key, as far as the level knows one."""
        if self.level in ("none", "occ"):
            return
        self._lock(tx, key, "X")
        changed = any((each.by.end or 0) > tx.start for each in self.versions.get(key, []))
        if self.level in SNAPSHOTS and changed:
            raise Conflict(f"{key} was changed after the snapshot")

    def _lock(self, tx: Tx, key: str, mode: str) -> None:
        held = self.locks.setdefault(key, {})
        rivals = {each for each, has in held.items() if each is not tx and "X" in (mode, has)}
        if mode == "X":
            rivals |= {each for each, prefixes in self.ranges.items()
                       if each is not tx and any(key.startswith(prefix) for prefix in prefixes)}  # fmt: skip
        self._wait(tx, rivals)
        held[tx] = "X" if "X" in (mode, held.get(tx)) else "S"
        tx.locked.add(key)

    def deadlock(self, tx: Tx) -> bool:
        """Whether `tx`, which waits, waits for itself."""
        found, new = set[Tx](), set(tx.waits)
        while new:
            found |= new
            new = {other for each in new if each.alive for other in each.waits} - found
        return tx in found

    def _concurrent(self, one: Tx, other: Tx) -> bool:
        return (one.end is None or one.end > other.start) and (other.end is None or other.end > one.start)

    def _edge(self, reader: Tx, writer: Tx) -> None:
        reader.out.add(writer)
        writer.into.add(reader)

    def _newer(self, tx: Tx, key: str, seen: Version | None) -> None:
        """Under "ssi": who has overwritten what was read."""
        if self.level == "ssi":
            versions = self.versions.get(key, [])
            for each in versions[versions.index(seen) + 1 if seen else 0 :]:
                if each.by is not tx:
                    self._edge(tx, each.by)

    def _dangerous(self, tx: Tx) -> None:
        """A pivot whose read was overwritten by one that has committed, and that overwrote what another one read. A
        reader that writes nothing is in danger only if the first of them had committed before its snapshot (Ports and
        Grittner, VLDB 2012, section 4.1)."""
        ends = {each: each.end for each in tx.out if each.end is not None}
        for one in tx.into:
            if one.state not in ("refused", "aborted"):
                latest = one.start if one.read_only or (one.end is not None and not one.wrote) else self.clock
                for other, end in ends.items():
                    if end <= latest:
                        raise Conflict(
                            f"T{tx.number} stands between T{one.number} and T{other.number}, which has committed"
                        )
        for pivot, end in ends.items():
            latest = end if tx.wrote else min(end, tx.start)
            if any(each.end is not None and each.end <= latest for each in pivot.out):
                raise Conflict(
                    f"T{pivot.number}, which has committed, would stand between T{tx.number} and another one"
                )

    def _end(self, tx: Tx, state: str) -> None:
        tx.state = state
        tx.waits = set()
        if state != "committed":
            for key in tx.wrote:
                self.versions[key] = [each for each in self.versions[key] if each.by is not tx]
        for key in tx.locked:
            self.locks[key].pop(tx, None)
        self.ranges.pop(tx, None)
        oldest = min((each.start for each in self.all if each.alive), default=self.clock)
        for key in () if self.keep else tx.wrote:
            done = [each for each in self.versions[key] if each.by.end is not None and each.by.end <= oldest]
            self.versions[key] = [each for each in self.versions[key] if each not in done[:-1]]
        self.all = [each for each in self.all if each.alive or (each.end or 0) > oldest]
