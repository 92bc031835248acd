"""A small store of lists at a chosen isolation level, whose clients run transactions at once, and the picture of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from grader.nodes.histories.transactions.stores import Store, plain
from grader.trace import style
from grader.trace.paper import Heading
from grader.trace.style import BAD, BAD_PALE, GRID, INK, MOVING, MOVING_EDGE, PALE, QUIET, SOFT, text

LEVELS = ("none", "read committed", "snapshot", "serializable")
WIDE, LANE = 1000, 46.0


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
    history: list[dict[str, Any]]  # what the clients saw, as `find_anomaly` gets it
    times: Mapping[int, Sequence[int]]  # by index: of its begin, its operations, and its end

    def show(self, found: tuple[str, Sequence[int]] | None = None) -> Drawing:
        """The clients' lanes in time, with a witness."""
        return Drawing(_drawn(self, found))


def run(level: str, clients: int = 5, transactions: int = 18, keys: int = 3, seed: int = 1) -> Played:
    """Run so many transactions of 1 to 4 operations at "none", "read committed", "snapshot" or "serializable".

    In the end one more transaction reads all keys. Raises ValueError for another level.
    """
    if level not in LEVELS:
        raise ValueError(f"no level is called {level!r}: choose one of {', '.join(LEVELS)}")
    store = Store(
        np.random.default_rng(seed), level.removeprefix("read "), keys, 4 * transactions + 1, clients, 4, 0, 0
    )
    history = plain(store.run(transactions))
    for txn in history:
        txn["ops"] = [[f, chr(ord("a") + key), value] for f, key, value in txn["ops"]]
    return Played(level, clients, history, store.times)


def _drawn(played: Played, found: tuple[str, Sequence[int]] | None) -> str:
    name, witness = found or ("", ())
    end = max(times[-1] for times in played.times.values()) + 1
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
    for txn in played.history:
        index, (began, *times, ended) = txn["index"], played.times[txn["index"]]
        began = times[0] - 1 if played.level == "serializable" and times else began  # until then it only waits
        x, wide = left + scale * began, max(scale * (ended - began), 8.0)
        y = top + LANE * txn["process"]
        told = index in witness
        fill, edge = (BAD_PALE, BAD) if told else (PALE, QUIET) if txn["type"] == "fail" else (MOVING, MOVING_EDGE)
        body.append(
            f'<g><rect x="{x:.1f}" y="{y + 9:.1f}" width="{wide:.1f}" height="{LANE - 18:.1f}" rx="4" fill="{fill}" '
            f'stroke="{edge}" stroke-width="{2 if told else 1}"/>'
            + text(x + wide / 2, y + LANE / 2 + 4, f"T{index}", 10.5, INK, "middle")
            + f"<title>{escape(_words(txn))}</title></g>"
        )
        for time in times:
            at = left + scale * time
            body.append(f'<path d="M{at:.1f} {y + 9:.1f}v5" stroke="{INK}" stroke-width="1.2"/>')
        places[index] = x + wide / 2, y
    bottom = top + LANE * played.clients
    cycle = name not in ("G1a", "G1b")
    steps = zip(witness, [*witness[1:], *witness[:1]], strict=True) if cycle else pairwise(witness)
    for number, (a, b) in enumerate(steps):
        if a in places and b in places:
            body += _arrow(places[a], places[b], number)
    body.append(text(16, bottom + 24, "red: the witness, in the direction of its cycle; grey: failed", 11, SOFT))
    told_of = [txn for index in dict.fromkeys(witness) for txn in played.history if txn["index"] == index]
    body += [text(16, bottom + 46 + 17 * at, _words(txn), 11.5, INK) for at, txn in enumerate(told_of)]
    return style.document(WIDE, bottom + 50 + 17 * len(set(witness)), title, body)


def _words(txn: Mapping[str, Any]) -> str:
    ops = ", ".join(f"{f} {key} {value}" for f, key, value in txn["ops"])
    return f"T{txn['index']} ({txn['type']}): {ops}"


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
