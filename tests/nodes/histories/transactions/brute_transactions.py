"""Small histories of transactions at random, and what is wrong with them, found the slow and plain way."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise, permutations
from typing import Any

from grader.nodes.histories.transactions import Op, Transaction

Typed = set[tuple[int, int, str]]


def serial(
    transactions: Sequence[Transaction], real_time: bool = False, sessions: bool = False, registers: bool = False
) -> bool:
    """Whether some order of all ok and some unknown transactions explains every read: tries them all."""
    must = [one for one in transactions if one.status == "ok"]
    maybe = [one for one in transactions if one.status == "info"]
    return any(
        _explains(order, real_time, sessions, registers)
        for count in range(len(maybe) + 1)
        for some in combinations(maybe, count)
        for order in permutations([*must, *some])
    )


def _explains(order: Sequence[Transaction], real_time: bool, sessions: bool, registers: bool) -> bool:
    for first, second in combinations(order, 2):
        ended = second.status == "ok" and second.returned < first.called
        if ended and (real_time or (sessions and first.process == second.process)):
            return False
    state: dict[Any, Any] = {}
    for one in order:
        for op in one.ops:
            if op.f == "append":
                state[op.key] = (*state.get(op.key, ()), op.value)
            elif op.f == "w":
                state[op.key] = op.value
            elif registers and one.status == "ok" and op.value != state.get(op.key):
                return False
            elif registers:
                continue
            elif one.status == "ok" and op.value is not None and op.value != state.get(op.key, ()):
                return False
    return True


def edges(transactions: Sequence[Transaction]) -> Typed:
    """The edges of a history of lists, by the definitions."""
    failed = {(op.key, op.value) for one in transactions if one.status == "fail" for op in one.ops if op.f == "append"}
    writer = {(op.key, op.value): one for one in transactions for op in one.ops if op.f == "append"}
    found: Typed = set()
    for key in {op.key for one in transactions for op in one.ops}:
        reads = [
            (tuple(value for value in op.value if (key, value) not in failed), one)
            for one in transactions
            if one.status == "ok"
            for op in one.ops
            if op.f == "r" and op.key == key and op.value is not None
        ]
        longest = max((read for read, _ in reads), key=len, default=())
        if len(set(longest)) < len(longest) or any(longest[: len(read)] != read for read, _ in reads):
            continue
        versions = [writer[key, value].index for value in longest]
        found |= {(a, b, "ww") for a, b in pairwise(versions)}
        for read, one in reads:
            if read and versions[len(read) - 1] == one.index:
                continue
            if read:
                found.add((versions[len(read) - 1], one.index, "wr"))
            if len(read) < len(versions):
                found.add((one.index, versions[len(read)], "rw"))
    return {(a, b, kind) for a, b, kind in found if a != b}


def orders(transactions: Sequence[Transaction], sessions: bool, real_time: bool) -> Typed:
    """All pairs, not only neighbors."""
    found: Typed = set()
    for one in transactions:
        for other in transactions:
            if one.status == "ok" and other.status != "fail" and one.returned < other.called:
                if real_time:
                    found.add((one.index, other.index, "real-time"))
                if sessions and one.process == other.process:
                    found.add((one.index, other.index, "session"))
    return found


def cycles(typed: Typed) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Every simple cycle with every choice of its edges."""
    out: dict[int, list[tuple[int, str]]] = {}
    for a, b, kind in sorted(typed):
        out.setdefault(a, []).append((b, kind))

    def walk(nodes: tuple[int, ...], kinds: tuple[str, ...]) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
        for target, kind in out.get(nodes[-1], ()):
            if target == nodes[0]:
                yield nodes, (*kinds, kind)
            elif target > nodes[0] and target not in nodes:
                yield from walk((*nodes, target), (*kinds, kind))

    for start in out:
        yield from walk((start,), ())


def kinds_of(kinds: Sequence[str]) -> set[str]:
    """The names that a cycle with edges of these kinds may have, but for its suffix."""
    rw = kinds.count("rw")
    if rw == 0:
        return {"G1c"} if "wr" in kinds else {"G0"}
    if rw == 1:
        return {"G-single"}
    together = any(a == b == "rw" for a, b in zip(kinds, [*kinds[1:], kinds[0]], strict=True))
    return {"G2-item"} if together else {"G2-item", "G-nonadjacent"}


def suffix_of(kinds: Sequence[str]) -> str:
    return "-realtime" if "real-time" in kinds else "-process" if "session" in kinds else ""


def history(
    draw: random.Random, most: int = 5, keys: Sequence[str] = ("x", "y"), last: bool = True
) -> list[Transaction]:
    """Up to `most` transactions on lists that see any prefix of what some order of all appends gives, or near it; with
    `last`, one more that reads everything at the end."""
    count, time = draw.randint(2, most), 0
    asked = []
    value = 0
    for _ in range(count):
        ops = []
        for _ in range(draw.randint(1, 3)):
            value += 1
            ops.append((draw.choice(("append", "r")), draw.choice(keys), value))
        asked.append((ops, draw.choice(["ok"] * 8 + ["info", "fail"])))
    lists: dict[str, list[int]] = {key: [] for key in keys}
    for ops, status in asked:
        for f, key, number in ops:
            if f == "append" and (status == "ok" or draw.random() < (0.5 if status == "info" else 0.06)):
                lists[key].append(number)
    for own in lists.values():
        if draw.random() < 0.4:
            draw.shuffle(own)
    made = []
    for at, (ops, status) in enumerate(asked):
        done: list[Op] = []
        for f, key, number in ops:
            if f == "append":
                done.append(Op("append", key, number))
                continue
            full = lists[key]
            read = full[: draw.randint(0, len(full))]
            if draw.random() < 0.05:
                draw.shuffle(read)
            if draw.random() < 0.03 and read:
                read.append(read[0])
            done.append(Op("r", key, tuple(read) if status == "ok" else None))
        made.append((at, status, tuple(done)))
    begun: list[tuple[int, float]] = []
    for _ in made:
        called = time + draw.randint(1, 2)
        begun.append((called, called + draw.choice((0.5, 0.5, 1.5, 2.5, 4.5))))
        time = called
    result: list[Transaction] = []
    for at, status, did in made:
        called, returned = begun[at]
        free = {*range(5)} - {int(one.process) for one in result if one.returned > called}
        result.append(Transaction(10 + 3 * at, draw.choice(sorted(free)[:3]), status, did, called, returned))  # type: ignore[arg-type]
    if last:
        reads = tuple(Op("r", key, tuple(own)) for key, own in lists.items())
        result.append(Transaction(5, 9, "ok", reads, time + 9, time + 10))
    return result


def registers(draw: random.Random, most: int = 5, keys: Sequence[str] = ("x", "y")) -> list[Transaction]:
    """A history of lists as one of registers: a read returns the last value of the list, or any other one."""
    made = []
    for one in history(draw, most, keys, last=draw.random() < 0.3):
        ops = []
        for op in one.ops:
            if op.f == "append":
                ops.append(Op("w", op.key, op.value))
            else:
                ops.append(Op("r", op.key, op.value[-1] if op.value else None))
        made.append(replace(one, ops=tuple(ops)))
    return made
