"""A small store of lists at a chosen isolation level, whose clients run transactions at once, and the picture of it."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Any

from grader.trace import style
from grader.trace.paper import Heading
from grader.trace.style import BAD, BAD_PALE, GRID, INK, MOVING, MOVING_EDGE, PALE, QUIET, SOFT, text

LEVELS = ("none", "read committed", "snapshot", "serializable")
WIDE, LANE = 1000, 46.0


@dataclass
class Transaction:
    """One of a client's: when it ran its operations, and how it ended."""

    client: int
    plan: list[tuple[str, str]]
    times: list[int] = field(default_factory=list)
    ops: list[list[Any]] = field(default_factory=list)
    own: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    snapshot: dict[str, int] = field(default_factory=dict)
    type: str = "ok"
    index: int = 0


@dataclass
class Drawing:
    """A picture that a notebook shows."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg


@dataclass
class Played:
    """What happened, and what the clients saw of it."""

    level: str
    clients: int
    ran: list[Transaction]

    @property
    def history(self) -> list[dict[str, Any]]:
        """What the clients saw: a list of transactions, as `find_anomaly` gets it."""
        return [{"index": txn.index, "process": txn.client, "type": txn.type, "ops": txn.ops} for txn in self.ran]

    def show(self, found: tuple[str, Sequence[int]] | None = None) -> Drawing:
        """The clients' lanes in time, with a witness."""
        return Drawing(_drawn(self, found))


def run(level: str, clients: int = 5, transactions: int = 18, keys: int = 3, seed: int = 1) -> Played:
    """Run so many transactions of 1 to 4 operations at "none", "read committed", "snapshot" or "serializable".

    In the end one more transaction reads all keys. Raises ValueError for another level.
    """
    if level not in LEVELS:
        raise ValueError(f"no level is called {level!r}: choose one of {', '.join(LEVELS)}")
    rng = random.Random(seed)
    names = [chr(ord("a") + at) for at in range(keys)]
    lists: dict[str, list[int]] = {name: [] for name in names}
    locks: dict[str, Transaction] = {}
    changed: dict[str, int] = {}  # the time at which a key was last committed
    running: dict[int, Transaction] = {}
    ran: list[Transaction] = []
    values: dict[str, int] = defaultdict(int)
    now = begun = 0
    while running or begun < transactions:
        for client in range(clients):
            if client not in running and begun < transactions and (level != "serializable" or not running):
                size = rng.randint(1, 4)
                plan = [("append" if rng.random() < 0.45 else "r", rng.choice(names)) for _ in range(size)]
                running[client] = Transaction(client, plan, [now])
                running[client].snapshot = {name: len(lists[name]) for name in names}
                begun += 1
        able = [txn for txn in running.values() if not _waits(level, txn, locks)]
        txn = rng.choice(able or list(running.values()))
        now += 1
        txn.times.append(now)
        if able and len(txn.ops) < len(txn.plan):
            _operate(level, txn, lists, locks, values)
            continue
        late = level == "snapshot" and any(changed.get(key, -1) > txn.times[0] for key in txn.own)
        txn.type = "ok" if able and not late else "fail"
        if txn.type == "ok":
            for key, mine in txn.own.items():
                changed[key] = now
                if level != "none":
                    lists[key] += mine
        else:
            txn.ops = [op if op[0] == "append" else ["r", op[1], None] for op in txn.ops]
        locks = {key: owner for key, owner in locks.items() if owner is not txn}
        txn.index = len(ran)
        ran.append(running.pop(txn.client))
    last = Transaction(0, [], [now + 1, now + 2], [["r", name, list(lists[name])] for name in names])
    last.index = len(ran)
    return Played(level, clients, [*ran, last])


def _waits(level: str, txn: Transaction, locks: dict[str, Transaction]) -> bool:
    if level != "read committed" or len(txn.ops) == len(txn.plan):
        return False
    f, key = txn.plan[len(txn.ops)]
    return f == "append" and locks.get(key, txn) is not txn


def _operate(
    level: str, txn: Transaction, lists: dict[str, list[int]], locks: dict[str, Transaction], values: dict[str, int]
) -> None:
    f, key = txn.plan[len(txn.ops)]
    if f == "append":
        values[key] += 1
        txn.own[key].append(values[key])
        txn.ops.append(["append", key, values[key]])
        if level == "read committed":
            locks[key] = txn
        if level == "none":
            lists[key].append(values[key])
        return
    seen = lists[key][: txn.snapshot[key]] if level == "snapshot" else lists[key]
    txn.ops.append(["r", key, [*seen, *(txn.own.get(key, []) if level != "none" else [])]])


def _drawn(played: Played, found: tuple[str, Sequence[int]] | None) -> str:
    name, witness = found or ("", ())
    end = max(txn.times[-1] for txn in played.ran) + 1
    title = f"{played.level}: {name} {list(witness)}" if found else f"{played.level}: no anomaly"
    heading = Heading.of(title, "Time goes from left to right; the last transaction reads every key.", WIDE)
    top, left = 20 + heading.height, 84.0
    scale = (WIDE - left - 16) / end
    body = heading.draw()
    for client in range(played.clients):
        y = top + LANE * client
        body.append(text(left - 10, y + LANE / 2 + 4, f"client {client}", 11.5, SOFT, "end"))
        body.append(f'<path d="M{left} {y + LANE / 2}H{WIDE - 16}" stroke="{GRID}"/>')
    places: dict[int, tuple[float, float]] = {}
    for txn in played.ran:
        x, wide = left + scale * txn.times[0], max(scale * (txn.times[-1] - txn.times[0]), 8.0)
        y = top + LANE * txn.client
        told = txn.index in witness
        fill, edge = (BAD_PALE, BAD) if told else (PALE, QUIET) if txn.type == "fail" else (MOVING, MOVING_EDGE)
        words = ", ".join(f"append {op[1]} {op[2]}" if op[0] == "append" else f"r {op[1]} {op[2]}" for op in txn.ops)
        body.append(
            f'<g><rect x="{x:.1f}" y="{y + 9:.1f}" width="{wide:.1f}" height="{LANE - 18:.1f}" rx="4" fill="{fill}" '
            f'stroke="{edge}" stroke-width="{2 if told else 1}"/>'
            + text(x + wide / 2, y + LANE / 2 + 4, f"T{txn.index}", 10.5, INK, "middle")
            + f"<title>{escape(f'T{txn.index} ({txn.type}): {words}')}</title></g>"
        )
        for time in txn.times[1:-1]:
            at = left + scale * time
            body.append(f'<path d="M{at:.1f} {y + 9:.1f}v5" stroke="{INK}" stroke-width="1.2"/>')
        places[txn.index] = x + wide / 2, y
    bottom = top + LANE * played.clients
    cycle = name not in ("G1a", "G1b")
    steps = zip(witness, [*witness[1:], *witness[:1]], strict=True) if cycle else pairwise(witness)
    for number, (a, b) in enumerate(steps):
        if a in places and b in places:
            body += _arrow(places[a], places[b], number)
    body.append(text(16, bottom + 24, "red: the witness, in the direction of its cycle; grey: failed", 11, SOFT))
    for at, index in enumerate(dict.fromkeys(witness)):
        for txn in [txn for txn in played.ran if txn.index == index]:
            words = ", ".join(
                f"append {op[1]} {op[2]}" if op[0] == "append" else f"r {op[1]} {op[2]}" for op in txn.ops
            )
            body.append(text(16, bottom + 46 + 17 * at, f"T{index} ({txn.type}): {words}", 11.5, INK))
    return style.document(WIDE, bottom + 50 + 17 * len(set(witness)), title, body)


def _arrow(source: tuple[float, float], target: tuple[float, float], number: int) -> list[str]:
    """From the top of one bar to the bottom or top of another."""
    (x, y), (to_x, to_y) = source, target
    down = to_y > y
    y, to_y = (y + LANE - 9, to_y + 8) if down else (y + 9, to_y + (LANE - 8 if to_y < y else 8))
    bend = 12.0 + 6 * (number % 3)
    mid = (y + to_y) / 2 + (0 if down else -bend)
    shift = 5.0 if number % 2 else -5.0
    return [
        f'<path d="M{x + shift:.1f} {y:.1f}C{x + shift:.1f} {mid:.1f} {to_x + shift:.1f} {mid:.1f} '
        f'{to_x + shift:.1f} {to_y:.1f}" fill="none" stroke="{BAD}" stroke-width="1.6"/>',
        style.head(to_x + shift, to_y, 0, 1 if down else -1 if to_y < y else 1, BAD),
    ]
