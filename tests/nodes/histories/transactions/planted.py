"""Small histories with one anomaly each, and what is to be found in them: exactly these kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from grader.nodes.histories.transactions import Op, Transaction

Status = Literal["ok", "fail", "info"]


@dataclass(frozen=True)
class Planted:
    """Transactions as texts: "x+1" appends (for registers x=1 writes), "x[1 2]" reads, "x?" reads nobody knows what.

    `spans` are when each began and ended; if left out, all overlap. `processes`: one each if left out.
    """

    kinds: tuple[str, ...]
    texts: tuple[str, ...]
    spans: tuple[tuple[float, float], ...] = ()
    processes: tuple[int, ...] = ()

    def transactions(self, first: int = 1, since: int = 0) -> list[Transaction]:
        """Named from `first` on; times from `since` on."""
        made = []
        for at, text in enumerate(self.texts):
            called, returned = self.spans[at] if self.spans else (at, 50 + at)
            process = self.processes[at] if self.processes else at
            status, ops = parsed(text)
            made.append(
                Transaction(first + at, 1000 + process, status, ops, since + int(10 * called), since + 10 * returned)
            )
        return made


def parsed(text: str) -> tuple[Status, tuple[Op, ...]]:
    """ "fail: x+1 y[1]" """
    status: Status = "ok"
    for word in ("fail", "info"):
        if text.startswith(f"{word}: "):
            status, text = word, text.removeprefix(f"{word}: ")
    ops = []
    for one in _words(text):
        at = next(at for at, c in enumerate(one) if c in "+=[?") if set(one) & set("+=[?") else 1
        key, rest = one[:at], one[at:]
        if rest[0] == "+":
            ops.append(Op("append", key, int(rest[1:])))
        elif rest[0] == "=":
            ops.append(Op("w", key, int(rest[1:])))
        elif rest[0] == "[":
            ops.append(Op("r", key, tuple(int(value) for value in rest[1:-1].split())))
        else:
            ops.append(Op("r", key, None if rest in ("?", "nil") else int(rest)))
    return status, tuple(ops)


def _words(text: str) -> Sequence[str]:
    found, open_ = [""], False
    for c in text:
        open_ = (open_ or c == "[") and c != "]"
        if c == " " and not open_:
            found.append("")
        else:
            found[-1] += c
    return found


LISTS = {
    "dirty write": Planted(("G0",), ("x+1 y+1", "x+2 y+2", "x[1 2] y[2 1]")),
    "three dirty writes": Planted(
        ("G0",), ("x+1 z+1", "x+2 y+2", "y+3 z+3", "x[1 2]", "y[2 3]", "z[3 1]")
    ),
    "aborted read": Planted(("G1a",), ("fail: x+1", "x[1]", "x[]")),
    "aborted read in the middle": Planted(("G1a",), ("fail: x+1", "x+2", "x[1 2]")),
    "intermediate read": Planted(("G1b", "G-single"), ("x+1 x+2", "x[1]", "x[1 2]")),
    "circular flow": Planted(("G1c",), ("x+1 y[2]", "y+2 x[1]")),
    "circular flow and a write": Planted(("G1c",), ("x+1 y+1", "y+2 x[1]", "y[2 1]")),
    "read skew": Planted(("G-single",), ("x+1 y+1", "x[] y[1]", "x[1]")),
    "read skew of three": Planted(("G-single",), ("x+1", "x[1] y+2", "y[2] x[]")),
    "read twice": Planted(("G-single",), ("x+1", "x[] x[1]")),
    "lost update": Planted(("lost-update", "G-single"), ("x[] x+1", "x[] x+2", "x[1 2]")),
    "lost append": Planted(("lost-update",), ("x[] x+1", "x[] x+2", "x[2]")),
    "write skew": Planted(("G2-item",), ("x[] y+1", "y[] x+2", "x[2] y[1]")),
    "write skew of three": Planted(("G2-item",), ("x[] y+1", "y[] z+2", "z[] x+3", "x[3] y[1] z[2]")),
    "long fork": Planted(("G-nonadjacent", "G2-item"), ("x+1", "y+2", "x[1] y[]", "x[] y[2]", "x[1] y[2]")),
    "own append not seen": Planted(("internal",), ("x+1 x[]",)),
    "own append seen before": Planted(("internal",), ("x[1] x+1",)),
    "second own append seen before": Planted(("internal",), ("x[1 2] x+1 x+2",)),
    "twice in a list": Planted(("duplicate-elements",), ("x+1", "x[1 1]")),
    "two orders": Planted(("incompatible-order",), ("x+1", "x+2", "x[1 2]", "x[2 1]")),
    "own appends out of order": Planted(("torn-append", "G1b"), ("x+1 x+2", "x[2 1]")),
    "from nowhere": Planted(("unwritten",), ("x+1", "x[1 9]")),
    "unknown that happened": Planted(("G-single",), ("info: x+1 y+1", "x[] y[1]", "x[1]")),
    "unknown that did not happen": Planted((), ("info: x+1 y+1", "x[] y[]")),
    "stale read": Planted(("G-single-realtime",), ("x+1", "x[]", "x[1]"), ((1, 2), (3, 4), (5, 6))),
    "own write of before not seen": Planted(
        ("G-single-process",), ("x+1", "x[]", "x[1]"), ((1, 2), (3, 4), (5, 6)), (0, 0, 1)
    ),
    "written into the past": Planted(("G0-realtime",), ("x+1", "x+2", "x[2 1]"), ((1, 2), (3, 4), (5, 6))),
    "written into the own past": Planted(
        ("G0-process",), ("x+1", "x+2", "x[2 1]"), ((1, 2), (3, 4), (5, 6)), (0, 0, 1)
    ),
    "read from the future": Planted(("G1c-realtime",), ("x[1]", "x+1"), ((1, 2), (3, 4))),
    "skew in time": Planted(
        ("G2-item-realtime",), ("x[] y+1", "x+2", "y[]", "x[2] y[1]"), ((1, 9), (2, 3), (4, 5), (10, 11))
    ),
    "fork in time": Planted(
        ("G-nonadjacent-realtime", "G2-item-realtime"),
        ("x[]", "x+1", "x[1] y[]", "y+2", "x[1] y[2]"), ((4, 5), (0, 9), (0.5, 9.5), (1, 2), (20, 21)),
    ),
}  # fmt: skip

REGISTERS = {
    "aborted read": Planted(("G1a",), ("fail: x=1", "x1")),
    "intermediate read": Planted(("G1b", "G-single"), ("x=1 x=2", "x1")),
    "circular flow": Planted(("G1c",), ("x=1 y2", "y=2 x1")),
    "read skew": Planted(("G-single",), ("x=1 y=1", "xnil y1")),
    "read skew of known versions": Planted(("G-single",), ("x=1 y=1", "x1 x=2 y1 y=2", "x1 y2")),
    "lost update": Planted(("lost-update", "G2-item"), ("x=1", "x1 x=2", "x1 x=3")),
    "write skew": Planted(("G2-item",), ("xnil y=1", "ynil x=2")),
    "long fork": Planted(("G-nonadjacent", "G2-item"), ("x=1", "y=2", "x1 ynil", "xnil y2")),
    "own write not seen": Planted(("internal",), ("x=1 xnil",)),
    "own write seen before": Planted(("internal",), ("x1 x=1",)),
    "from nowhere": Planted(("unwritten",), ("x9",)),
    "versions in a circle": Planted(("cyclic-versions", "G1c"), ("x1 x=2", "x2 x=1")),
    "stale read of nothing": Planted(("G-single-realtime",), ("x=1", "xnil"), ((1, 2), (3, 4))),
    "blind writes have no order": Planted((), ("x=1 y=1", "x=2 y=2", "x1 y2")),
}
