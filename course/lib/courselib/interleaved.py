"""Transactions in an order of turns, on a store of `isolation`: what each step does, and the anomaly that comes of it.

played = play(["r x; w x +10; commit", "r x; w x +20; commit"], "121122", "read committed", {"x": 100})
played.steps     who did what, and whether it was done, waits or was refused
played.wrong     the anomaly among what was committed, by Adya's names; "" if there is none
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from courselib.isolation import Conflict, Store, Tx, Version, Wait


@dataclass(frozen=True)
class Step:
    """`result`: what was read or written, "waits" or "refused"; `said`: why it waits or was refused."""

    who: int
    what: str
    result: Any
    said: str = ""


@dataclass(frozen=True)
class Played:
    steps: tuple[Step, ...]
    states: tuple[str, ...]
    final: dict[str, Any]
    wrong: str
    edges: tuple[tuple[int, int, str, str], ...]  # from, to, ww or wr or rw, key


def play(texts: Sequence[str], order: str, level: str, initial: dict[str, Any] | None = None) -> Played:
    """Transactions "op; op; ..." in an order of turns ("1212"). A turn of one that waits or is over is skipped; who
    waited goes on as soon as it can. A transaction begins with its first operation."""
    store = Store(level, initial)
    txs = [Tx(number, 0, number) for number in range(1, len(texts) + 1)]
    todo = [[op.strip() for op in text.split(";")] for text in texts]
    steps: list[Step] = []
    seen: list[tuple[Tx, str, Version | None]] = []
    dirty: list[tuple[Tx, Version]] = []

    def step(tx: Tx) -> None:
        what = todo[tx.number - 1][0]
        reads = len(tx.read)
        if tx not in store.all:
            tx.start = store.clock
            store.all.append(tx)
        try:
            result = store.do(tx, what)
        except Wait as wait:
            again, tx.state, tx.waits = tx.state == "waiting", "waiting", wait.on
            if store.deadlock(tx):
                store.refuse(tx, "a deadlock")
                steps.append(Step(tx.number, what, "refused", "a deadlock"))
            elif not again:
                names = " and ".join(f"T{each.number}" for each in sorted(wait.on, key=lambda each: each.number))
                steps.append(Step(tx.number, what, "waits", f"for {names}"))
            return
        except Conflict as conflict:
            store.refuse(tx, str(conflict))
            steps.append(Step(tx.number, what, "refused", str(conflict)))
            return
        todo[tx.number - 1].pop(0)
        if tx.state == "waiting":
            tx.state, tx.waits = "active", set()
        seen.extend((tx, key, version) for key, version in tx.read[reads:])
        dirty.extend((tx, each) for key in tx.wrote for each in store.versions[key] if each.by is tx)
        steps.append(Step(tx.number, what, result))

    for turn in filter(lambda turn: turn <= str(len(txs)), order):
        tx = txs[int(turn) - 1]
        if tx.state == "active" and todo[tx.number - 1]:
            step(tx)
            woken = True
            while woken:  # who waited tries again, in the order of their numbers, until nobody moves
                before = [each.state for each in txs]
                for each in txs:
                    if each.state == "waiting":
                        step(each)
                woken = before != [each.state for each in txs]
    edges = _edges(store, txs, seen)
    final = {key: last[-1].value for key, each in store.versions.items() if (last := _committed(each))}
    over = all(not tx.alive for tx in txs)
    wrong = _wrong(txs, seen, dirty, edges) if over else ""
    return Played(tuple(steps), tuple(tx.state for tx in txs), final, wrong, tuple(edges))


def _committed(versions: Sequence[Version]) -> list[Version]:
    """The last version of each committed transaction, in order."""
    done = [each for each in versions if each.by.end is not None]
    return [each for at, each in enumerate(done) if all(later.by is not each.by for later in done[at + 1 :])]


def _edges(
    store: Store, txs: Sequence[Tx], seen: Sequence[tuple[Tx, str, Version | None]]
) -> list[tuple[int, int, str, str]]:
    found: set[tuple[int, int, str, str]] = set()
    for key, all_versions in store.versions.items():
        order = _committed(all_versions)
        for one, after in pairwise(order):
            found.add((one.by.number, after.by.number, "ww", key))
        for reader, of, version in seen:
            if (
                of.endswith("*") and reader.end is not None and version is not None
            ):  # it saw that this key was not there
                if order and key.startswith(of[:-1]) and key not in version.value:
                    found.add((reader.number, order[0].by.number, "rw", key))
                continue
            if of != key or reader.end is None:
                continue
            if version is not None and version.by.end is not None:
                found.add((version.by.number, reader.number, "wr", key))
            writers = [each.by for each in order]
            at = -1 if version is None else writers.index(version.by) if version.by in writers else len(order)
            if at + 1 < len(order) and (version is None or version.by is not reader):
                found.add((reader.number, order[at + 1].by.number, "rw", key))
    return sorted(edge for edge in found if edge[0] != edge[1] and edge[0] and edge[1])


def _wrong(
    txs: Sequence[Tx],
    seen: Sequence[tuple[Tx, str, Version | None]],
    dirty: Sequence[tuple[Tx, Version]],
    edges: Sequence[tuple[int, int, str, str]],
) -> str:
    """The worst anomaly among the committed ones, by the names of Adya (1999)."""
    for reader, _, version in seen:
        if reader.end is None or version is None or version.by is reader:
            continue
        if version.by.end is None:
            return "G1a"
        own = [each for by, each in dirty if by is version.by and each.key == version.key]
        if own[-1:] and own[-1] is not version:
            return "G1b"
    best: list[tuple[int, int, str]] = []
    for one, other, kind, _ in edges:
        for path in _paths(other, one, edges, ()):
            kinds = [kind, *path]
            rw = kinds.count("rw")
            best.append((min(rw, 2), "wr" in kinds, "G-single" if rw == 1 else "G2-item" if rw else ""))
    if not best:
        return ""
    rw, wr, name = min(best)
    return name or ("G1c" if wr else "G0")


def _paths(
    at: int, to: int, edges: Sequence[tuple[int, int, str, str]], been: tuple[int, ...]
) -> list[tuple[str, ...]]:
    if at == to:
        return [()]
    found = []
    for one, other, kind, _ in edges:
        if one == at and other not in been:
            found += [(kind, *rest) for rest in _paths(other, to, edges, (*been, at))]
    return found
